/** Request ids and audit labels: 1–128 of `A-Z a-z 0-9 . _ : -`. */
export const labelPattern = /^[A-Za-z0-9._:-]{1,128}$/;

/** Whether a text may be a request id or an audit label. */
export function isLabel(text: string): boolean {
  return labelPattern.test(text);
}

/** A request id for a call that brought none. */
export function newRequestId(): string {
  return `req_${crypto.randomUUID().replaceAll("-", "")}`;
}
