/** The maximum size of a part's headers. Leaves room for a file name of 255 characters, each percent-encoded. */
const maxHeaderBytes = 4_096;
const crlf = "\r\n";
const [space, tab] = [0x20, 0x09];

/**
 * Parses a body of type multipart/form-data (RFC 7578) and stops at the first part beyond the limit. The time is linear
 * in the body's size.
 * @param options.contentType the header with the boundary
 * @returns the fields in order, or null if the body is malformed or has too many parts
 */
export function parseMultipart(
  body: Uint8Array<ArrayBuffer>,
  { contentType, maxParts }: { contentType: string; maxParts: number },
): [name: string, value: string | File][] | null {
  const boundary = /;\s*boundary=(?:"([^"]{1,70})"|([^\s";]{1,70}))/i.exec(contentType)?.slice(1).find(Boolean);
  if (!boundary) return null;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const delimiter = Buffer.from(`${crlf}--${boundary}`, "latin1");
  const fields: [string, string | File][] = [];
  // Text may precede the first boundary, and spaces and tabs may follow each one (RFC 2046 section 5.1.1).
  const opening = delimiter.subarray(crlf.length);
  const isFirst = bytes.subarray(0, opening.length).equals(opening);
  const first = isFirst ? 0 : bytes.indexOf(delimiter);
  if (first < 0) return null;
  let at = first + (isFirst ? opening : delimiter).length;
  for (;;) {
    // A form without fields has only its last boundary.
    if (bytes.toString("latin1", at, at + 2) === "--") return isFirst || fields.length > 0 ? fields : null;
    while (bytes[at] === space || bytes[at] === tab) at += 1;
    const next = bytes.toString("latin1", at, at + 2);
    if (next !== crlf || fields.length === maxParts) return null;
    const headersLength = bytes.subarray(at, at + maxHeaderBytes).indexOf(crlf + crlf);
    if (headersLength < 0) return null;
    const start = at + headersLength + 2 * crlf.length;
    const end = bytes.indexOf(delimiter, start);
    if (end < 0) return null;
    const field = readField(bytes.toString("utf8", at, at + headersLength), bytes.subarray(start, end));
    if (!field) return null;
    fields.push(field);
    at = end + delimiter.length;
  }
}

/** Reads a part. A part with a file name is a file. */
function readField(headers: string, content: Uint8Array): [string, string | File] | null {
  const disposition = /^content-disposition:[ \t]*form-data[ \t]*(;.*)$/im.exec(headers)?.[1];
  const name = disposition && parameter(disposition, /;\s*name=(?:"([^"]*)"|([^\s";]+))/i);
  // Browsers percent-encode line breaks, so that no other control character occurs in headers.
  if (name === undefined || /[^\P{Cc}\r\n\t]/u.test(headers)) return null;
  const fileName = parameter(disposition ?? "", /;\s*filename=(?:"([^"]*)"|([^\s";]+))/i);
  if (fileName === undefined) return [name, new TextDecoder("utf-8", { ignoreBOM: true }).decode(content)];
  const type = /^content-type:[ \t]*(\S.*)$/im.exec(headers)?.[1] ?? "text/plain";
  return [name, new File([new Uint8Array(content)], fileName, { type })];
}

/** Returns a parameter of a header, with the escapes of the HTML standard (multipart/form-data encoding algorithm). */
function parameter(header: string, pattern: RegExp): string | undefined {
  const [, quoted, token] = pattern.exec(header) ?? [];
  return (quoted ?? token)?.replace(/%(0A|0D|22)/gi, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
}
