/** Request ids and audit labels: 1–128 of `A-Z a-z 0-9 . _ : -`. */
export const labelPattern = /^[A-Za-z0-9._:-]{1,128}$/;

export function isLabel(text: string): boolean {
  return labelPattern.test(text);
}

/**
 * Matches the ids of accounts, services, runs and references as providers write them: 1–256 characters, without control
 * characters or line separators, and without white space at either end. The database has the same rule in
 * ai.is_external_id.
 */
export const externalIdPattern = /^[^\s\p{Cc}\p{Cs}](?:[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{0,254}[^\s\p{Cc}\p{Cs}])?$/u;

export function isExternalId(text: string): boolean {
  return externalIdPattern.test(text);
}

/** The rule of {@link externalIdPattern}, as a message for users. */
export const externalIdMessage = "This takes 1 to 256 characters, without line breaks or white space at either end.";

/** Returns a request id for a call that has none. */
export function newRequestId(): string {
  return `req_${crypto.randomUUID().replaceAll("-", "")}`;
}
