import { isIP } from "node:net";

/**
 * A redirect URL, parsed and written as by Go's net/url, which Supabase Auth uses. A browser's URL parser would
 * normalize some URLs that are not allowed into allowed ones.
 */
export type RedirectUrl = {
  scheme: string;
  /** The part before the path: user, host and port; undefined if the URL has none, as in `mailto:`. */
  authority: string | undefined;
  /** The host in its original case, without the brackets of an IPv6 address. */
  host: string;
  port: string;
  path: string;
  query: string;
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const controlCharacter = /[\u0000-\u001f\u007f]/;
const completeEscapes = /^(?:[^%]|%[0-9a-fA-F]{2})*$/;
/** Matches a host: RFC 3986 section 3.2.2, and the other characters that Go allows. */
const hostForm = /^(?:[\w.~!$&'()*+,;=:[\]<>"-]|[^\x20-\x7f]|%[89a-fA-F][0-9a-fA-F])*$/;
const userForm = /^(?:[\w.~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})*$/;

/** Parses a redirect URL. @returns undefined for anything but an absolute URL */
export function parseRedirectUrl(text: string): RedirectUrl | undefined {
  if (controlCharacter.test(text)) return undefined;
  const [bare = "", ...fragment] = text.split("#");
  const match = /^([a-zA-Z][a-zA-Z0-9+.-]*):([^?]*)(?:\?(.*))?$/s.exec(bare);
  if (!match || !completeEscapes.test(fragment.join("#"))) return undefined;
  const [, scheme = "", rest = "", query = ""] = match;
  const url = { scheme: scheme.toLowerCase(), query, authority: undefined, host: "", port: "" };
  if (!rest.startsWith("//"))
    return rest.startsWith("/") && !completeEscapes.test(rest) ? undefined : { ...url, path: rest };
  const slash = rest.indexOf("/", 2);
  const authority = rest.slice(2, slash < 0 ? undefined : slash);
  const path = slash < 0 ? "" : rest.slice(slash);
  const server = parseAuthority(authority);
  return server && completeEscapes.test(path) ? { ...url, ...server, authority, path } : undefined;
}

function parseAuthority(authority: string): { host: string; port: string } | undefined {
  const at = authority.lastIndexOf("@");
  const server = authority.slice(at + 1);
  if (at >= 0 && !userForm.test(authority.slice(0, at))) return undefined;
  const [, host = "", port = ""] = /^(\[[^\]]*\]|.*?)(?::(\d*))?$/s.exec(server) ?? [];
  if (!hostForm.test(host)) return undefined;
  const [, literal] = /^\[(.*)\]$/.exec(host) ?? [];
  if (literal === undefined ? host.includes(":") : isIP(literal) !== 6) return undefined;
  return { host: literal ?? host, port };
}

/** Returns the URL with some query parameters set. Parameters are sorted by name. */
export function withQuery(target: string, fields: Readonly<Record<string, string>>): string {
  const preserved = queryOf(target).filter(([name]) => !(name in fields));
  const [, ...fragment] = target.split("#");
  const query = encodeQuery([...preserved, ...Object.entries(fields)]);
  return `${beforeQuery(target)}${query && `?${query}`}${fragment.length > 0 ? `#${reescape(fragment.join("#"))}` : ""}`;
}

/** Returns the URL with these parameters as its fragment. Percent-encodes the parameters twice. */
export function withFragment(target: string, fields: Readonly<Record<string, string>>): string {
  const [bare = ""] = target.split("#");
  const [, query] = /\?(.*)$/s.exec(bare) ?? [];
  const withQuery = beforeQuery(bare) + (query === undefined ? "" : `?${query}`);
  return `${withQuery}#${encodeQuery(Object.entries(fields)).replaceAll("%", "%25")}`;
}

/** Encodes parameters for a query, or for a fragment in the same format, sorted by name. */
export function encodeQuery(fields: readonly (readonly [string, string])[]): string {
  return fields
    .toSorted(([one], [other]) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
    .map(([name, value]) => `${encodePart(name)}=${encodePart(value)}`)
    .join("&");
}

function encodePart(text: string): string {
  return escapeBytes(text, /[\w.~-]/).replaceAll("%20", "+");
}

/** Returns a query's parameters, without malformed ones. */
function queryOf(target: string): [string, string][] {
  const [, query = ""] = /\?([^#]*)/s.exec(target) ?? [];
  return query.split("&").flatMap((part): [string, string][] => {
    if (part === "" || part.includes(";") || !completeEscapes.test(part)) return [];
    const [name = "", ...value] = part.replaceAll("+", " ").split("=");
    return [[unescapeText(name), unescapeText(value.join("="))]];
  });
}

const unescapeText = (text: string) => Buffer.from(unescapeBytes(text)).toString();

function unescapeBytes(escaped: string): Buffer {
  const parts = escaped.matchAll(/%([0-9a-fA-F]{2})|[^%]+/gs);
  return Buffer.concat([...parts].map(([text, hex]) => (hex ? Buffer.from(hex, "hex") : Buffer.from(text))));
}

/** Returns everything before the query. */
function beforeQuery(target: string): string {
  const url = parseRedirectUrl(target);
  if (!url) return target.split(/[?#]/)[0] ?? "";
  const { scheme, authority, path } = url;
  if (authority === undefined) return `${scheme}:${path}`;
  return `${scheme}://${escapeBytes(authority, /[\x21-\x7e]/)}${reescape(path)}`;
}

/** Returns a path or fragment unchanged, or decodes and re-encodes it if it contains an invalid character. */
function reescape(part: string): string {
  const isEscaped = /^(?:[\w.~!$&'()*+,;=:@[\]/?-]|%[0-9a-fA-F]{2})*$/.test(part);
  return isEscaped ? part : escapeBytes(unescapeBytes(part), /[\w.~$&+,/:;=?@-]/);
}

function escapeBytes(text: string | Buffer, preserved: RegExp): string {
  return [...Buffer.from(text)]
    .map((byte) => {
      const character = String.fromCharCode(byte);
      return byte < 0x80 && preserved.test(character)
        ? character
        : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
    })
    .join("");
}
