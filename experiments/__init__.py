"""The paper's tables on real data: plans, a runner that goes on where it stopped, results as data, a report.

=============  ==========================================================================================
module         what
=============  ==========================================================================================
``plan``       a table's ``plan.yaml`` to the trials that it asks for
``datasets``   the data sets by name, as lists of examples
``trial``      one trial as a job: trains and measures a model, or measures models that others have trained
``outcomes``   what is kept of a trial's outputs, so that intervals and comparisons follow without the models
``answers``    the most probable outputs of a trial, for ensembles without the models
``ensembles``  what several models answer together, from their answers
``packing``    long texts as short ones, for files that are committed
``results``    the rows of finished trials, in files that are only ever added to
``runner``     all trials side by side
``report``     the tables and plots of REPORT.md, from the results alone
=============  ==========================================================================================
"""
