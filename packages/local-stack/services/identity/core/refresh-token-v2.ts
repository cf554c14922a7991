import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/**
 * A version 2 refresh token: base64url of a version byte 0, the session's UUID, a counter as an unsigned varint, the
 * first 16 bytes of an HMAC-SHA-256 of these, and the first 4 bytes of a SHA-256 of everything before.
 */
export type SignedRefreshToken = { sessionId: string; counter: bigint; isSignedWith: (key: Buffer) => boolean };

const signatureBytes = 16;
const checksumBytes = 4;
const sessionIdEnd = 17;

/** Creates the token for a session's counter. */
export function encodeRefreshToken(sessionId: string, counter: bigint, key: Buffer): string {
  const signed = Buffer.concat([Buffer.from([0]), Buffer.from(sessionId.replaceAll("-", ""), "hex"), varint(counter)]);
  const body = Buffer.concat([signed, sign(signed, key)]);
  return Buffer.concat([body, checksum(body)]).toString("base64url");
}

/** Decodes a token. @returns undefined if it is malformed */
export function decodeRefreshToken(token: string): SignedRefreshToken | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(token)) return undefined;
  const bytes = Buffer.from(token, "base64url");
  const body = bytes.subarray(0, -checksumBytes);
  if (body.length <= sessionIdEnd + signatureBytes || bytes[0] !== 0) return undefined;
  if (!checksum(body).equals(bytes.subarray(-checksumBytes))) return undefined;
  const signed = body.subarray(0, -signatureBytes);
  const counter = readVarint(signed.subarray(sessionIdEnd));
  if (counter === undefined) return undefined;
  const hex = signed.toString("hex", 1, sessionIdEnd);
  return {
    sessionId: hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5"),
    counter,
    isSignedWith: (key) => timingSafeEqual(sign(signed, key), body.subarray(-signatureBytes)),
  };
}

function sign(signed: Buffer, key: Buffer): Buffer {
  return createHmac("sha256", key).update(signed).digest().subarray(0, signatureBytes);
}

function checksum(body: Buffer): Buffer {
  return createHash("sha256").update(body).digest().subarray(0, checksumBytes);
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  return Buffer.from([...bytes, Number(rest)]);
}

function readVarint(bytes: Buffer): bigint | undefined {
  const last = bytes.length - 1;
  if (last < 0 || last > 8 || (bytes[last] ?? 0x80) >= 0x80) return undefined;
  let value = 0n;
  for (const [index, byte] of bytes.entries()) {
    if (index < last && byte < 0x80) return undefined;
    value |= BigInt(byte & 0x7f) << BigInt(7 * index);
  }
  return value;
}
