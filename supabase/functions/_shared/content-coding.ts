/** The registered codings that change a body (IANA, HTTP Content Coding Registry), and their aliases. */
const codings: ReadonlySet<string> = new Set(
  [
    "aes128gcm",
    "br",
    "compress",
    "dcb",
    "dcz",
    "deflate",
    "exi",
    "gzip",
    "pack200-gzip",
    "x-compress",
    "x-gzip",
  ].concat("zstd"),
);

/**
 * Returns whether a request's body is encoded. Ignores `identity` and names that aren't codings, such as a charset that
 * a client sends in this header.
 */
export function isEncoded({ headers }: Pick<Request, "headers">): boolean {
  const names = headers.get("content-encoding")?.toLowerCase().split(",") ?? [];
  return names.some((name) => codings.has(name.trim()));
}
