"""What ``experiments.report`` is made of.

==================  ===================================================================================
module              what
==================  ===================================================================================
``gathered``        the results of a table beside its plan: groups of trials that make one figure
``bootstrap``       resamples of lemmas, intervals, p-values
``measured``        what a group's outcomes say: a value and its resamples
``estimates``       means over seeds and over data sets, and differences of two systems
``published``       what others have published, from ``published.yaml``
``markdown``        tables and numbers as text
``provenance``      where a section's numbers come from, and what is missing
``inflection``      Tables 3 and 4, and beyond
``summarisation``   Tables 1 and 2
``online``          quality against latency
``others``          other fields, figures, and what was tried on dev
``bars``            what was asked for, and what was seen
``pictures``        the plots
==================  ===================================================================================
"""
