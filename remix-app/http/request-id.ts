const sane = /^[A-Za-z0-9._:-]{1,128}$/;

/** The request's id: the caller's where it is 1–128 of `A-Z a-z 0-9 . _ : -`, else a new one. */
export function requestIdOf(headers: Headers): string {
  const given = headers.get("x-request-id");
  return given !== null && sane.test(given) ? given : crypto.randomUUID();
}
