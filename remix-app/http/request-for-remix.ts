/**
 * The request as Remix sees it: on our configured origin, whatever Host said. Its Origin has been judged already;
 * Remix would compare it with Host, which knows nothing of the configured list.
 */
export function requestForRemix(
  request: Request,
  { origin, pathname, body }: { origin: string; pathname: string; body: Uint8Array<ArrayBuffer> },
): Request {
  const { search } = new URL(request.url);
  const url = new URL(origin);
  url.pathname = pathname;
  url.search = search;
  // An older protocol of Remix, which it takes for an error.
  if (url.searchParams.has("_data")) url.searchParams.delete("_data");
  const headers = new Headers(request.headers);
  headers.set("host", url.host);
  for (const name of ["origin", "x-forwarded-host", "x-forwarded-proto"]) headers.delete(name);
  const hasBody = request.method !== "GET" && request.method !== "HEAD";
  return new Request(url, { method: request.method, headers, signal: request.signal, ...(hasBody ? { body } : {}) });
}
