/** Of an uploaded file, in MiB. */
export const mostFileMiB = 8;
/** Of the forms of an import: a file, or the review of one, and the other fields. */
export const importBodyBytes = (mostFileMiB + 8) * 1024 * 1024;
