/**
 * The shapes that the modules share, for editors and readers; there is nothing to run here.
 *
 * @typedef {object} Model What `GET /v1/models` says of one model.
 * @property {string} name
 * @property {string} kind What it is, or `ensemble`.
 * @property {string[]} members The kinds of an ensemble's models.
 * @property {boolean} is_online Whether it can write while it reads.
 * @property {boolean} has_alignment
 * @property {boolean} has_tags
 * @property {string[]} tags All tags that it knows.
 * @property {string[][]} tag_sets For one model per tag set: the sets.
 * @property {string[]} searches
 * @property {{search: string, beam: number, nbest: number}} search The defaults.
 * @property {{text: string, tags: string[], output: string} | null} example
 *
 * @typedef {object} Limits
 * @property {number} max_text_length
 * @property {number} max_beam
 * @property {number} max_nbest
 * @property {number} max_stream_length
 * @property {number} max_lattice_cells
 *
 * @typedef {object} Settings How one panel asks its model.
 * @property {string} search `live` for the stream, else a search of the service.
 * @property {number} beam
 * @property {number | null} maxDelay
 * @property {string[]} tags
 *
 * @typedef {object} Frame What a panel shows at one moment of the reading. Frames are never changed once made.
 * @property {number} read How many source symbols have been read.
 * @property {boolean} isEnd Whether the end of the source has been read too.
 * @property {string[]} source Labels of the source axis, the end symbol included where it has been read.
 * @property {string[]} target Labels of the target axis, likewise.
 * @property {number} committed How many of the target's symbols are certain.
 * @property {string} committedText
 * @property {string} tentativeText
 * @property {number[][] | null} rows `rows[i][j]` is the probability of symbol `j` being written at `i`; zeros at the
 *     end of a row may be left out. Null where there are none to show.
 * @property {number[]} path The best path's source position for each target symbol.
 * @property {number[]} delays For each committed symbol, how much had been read when it was committed.
 *
 * @typedef {object} Alternative One line of the n-best list.
 * @property {string} text
 * @property {number | null} probability
 * @property {Frame | null} frame Its alignment, or null if that has yet to be asked for.
 */
export {};
