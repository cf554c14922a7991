/** Request ids and audit labels: 1–128 of `A-Z a-z 0-9 . _ : -`. */
export const labelPattern = /^[A-Za-z0-9._:-]{1,128}$/;

/** Whether a text may be a request id or an audit label. */
export function isLabel(text: string): boolean {
  return labelPattern.test(text);
}

/**
 * Accounts, services, runs and references as providers write them: 1–256 characters, no control characters or line
 * separators, no white space at either end. ai.is_external_id has the same rule.
 */
export const externalIdPattern = /^[^\s\p{Cc}\p{Cs}](?:[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{0,254}[^\s\p{Cc}\p{Cs}])?$/u;

/** Whether a text may be an id of a provider's. */
export function isExternalId(text: string): boolean {
  return externalIdPattern.test(text);
}

/** The rule of {@link externalIdPattern}, for people. */
export const externalIdRule = "This takes 1 to 256 characters, without line breaks or white space at either end.";

/** A request id for a call that brought none. */
export function newRequestId(): string {
  return `req_${crypto.randomUUID().replaceAll("-", "")}`;
}
