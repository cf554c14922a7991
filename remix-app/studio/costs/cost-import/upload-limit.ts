/** The maximum size of an uploaded file, in MiB. */
export const mostFileMiB = 8;
/** The maximum body size of an import's forms, which carry a file or its packed contents along with other fields. */
export const importBodyBytes = (mostFileMiB + 8) * 1024 * 1024;
