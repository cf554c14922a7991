import { Buffer } from "node:buffer";

/** Byte rates that are typical of speech, used if the header states none. For WAV: 16 kHz, 16 bits, mono. */
const usualWavBytesPerSecond = 32_000;
const usualMp3BytesPerSecond = 16_000;
const bytesPerSecondLimits = { min: 1_000, max: 400_000 } as const;
/** How many base64 characters of a WAV file are searched for the `fmt ` chunk. Other chunks may precede that chunk. */
const wavHeaderCharacters = 1_024;

/** Returns the number of bytes that a base64 text encodes. */
function base64Bytes(base64: string): number {
  return Math.floor((base64.replace(/=+$/, "").length * 3) / 4);
}

/**
 * Returns the length of a base64 audio file in seconds: its bytes divided by the byte rate in its header, or by a
 * typical rate.
 */
export function estimateAudioSeconds({ data, format }: { data: string; format: "wav" | "mp3" }): number {
  const isWav = format === "wav";
  const stated = isWav
    ? wavBytesPerSecond(Buffer.from(data.slice(0, wavHeaderCharacters), "base64"))
    : mp3BytesPerSecond(data);
  const { min, max } = bytesPerSecondLimits;
  const usual = isWav ? usualWavBytesPerSecond : usualMp3BytesPerSecond;
  const rate = stated !== undefined && stated >= min && stated <= max ? stated : usual;
  return base64Bytes(data) / rate;
}

/** Returns the byte rate that a WAV file's header states in the third field of the `fmt ` chunk. */
function wavBytesPerSecond(header: Buffer): number | undefined {
  if (header.toString("latin1", 0, 4) !== "RIFF" || header.toString("latin1", 8, 12) !== "WAVE") return undefined;
  for (let at = 12; at + 20 <= header.length; at += 8 + header.readUInt32LE(at + 4)) {
    if (header.toString("latin1", at, at + 4) === "fmt ") return header.readUInt32LE(at + 16);
  }
  return undefined;
}

/** Bit rates in kbit/s by their index in a frame's header, for MPEG 1 layer III and for MPEG 2 and 2.5 layer III. */
const mp3Bitrates = [
  [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const;

/** Returns the byte rate in the first frame of an MP3 file, after any ID3v2 tag. */
function mp3BytesPerSecond(data: string): number | undefined {
  const tag = Buffer.from(data.slice(0, 16), "base64");
  const size = (at: number) => (tag[at] ?? 0) & 0x7f;
  const hasTag = tag.toString("latin1", 0, 3) === "ID3";
  const start = hasTag ? 10 + ((size(6) << 21) | (size(7) << 14) | (size(8) << 7) | size(9)) : 0;
  const from = Math.floor(start / 3);
  const [sync = 0, version = 0, rates = 0] = Buffer.from(data.slice(from * 4, from * 4 + 12), "base64").subarray(
    start % 3,
  );
  // A frame begins with eleven sync bits. Only layer III is supported.
  if (sync !== 0xff || (version & 0xe6) !== 0xe2) return undefined;
  const isVersion1 = (version & 0x18) === 0x18;
  const kilobits = mp3Bitrates[isVersion1 ? 0 : 1][(rates >> 4) - 1];
  return kilobits === undefined ? undefined : (kilobits * 1_000) / 8;
}

type Detail = "auto" | "low" | "high" | "original";
type Size = { width: number; height: number };

/** https://platform.openai.com/docs/guides/images-vision#calculating-costs */
const imageTokenRules = {
  base: 85,
  each: 170,
  side: 512,
  longest: 2_048,
  shortest: 768,
  longestOriginal: 6_000,
} as const;
const usualImage: Size = { width: 1_024, height: 1_024 };
/** How much of an image is searched for its dimensions. In a JPEG, they follow the thumbnail. */
const imageCharacters = 96 * 1_024;

/**
 * Returns an image's token count: 85 tokens at low detail. At any other detail, adds 170 tokens for each tile of 512 ×
 * 512 pixels in the scaled image. At original detail, the image is scaled to at most 6,000 pixels on its longest side.
 */
export function estimateImageTokens(url: string, detail: Detail = "auto"): number {
  if (detail === "low") return imageTokenRules.base;
  const { width, height } = readImageSize(url) ?? usualImage;
  const isOriginal = detail === "original";
  const longest = Math.min(
    1,
    (isOriginal ? imageTokenRules.longestOriginal : imageTokenRules.longest) / Math.max(width, height),
  );
  const scale = isOriginal
    ? longest
    : longest * Math.min(1, imageTokenRules.shortest / (Math.min(width, height) * longest));
  const across = Math.ceil((width * scale) / imageTokenRules.side);
  const down = Math.ceil((height * scale) / imageTokenRules.side);
  return imageTokenRules.base + imageTokenRules.each * across * down;
}

/**
 * Returns how many high-detail images one image counts as in the reservation. At original detail, OpenAI counts up to
 * 10,000 patches.
 */
export function countReservedImages(detail: Detail = "auto"): number {
  return detail === "original" ? 7 : 1;
}

/** Returns the size of a PNG, GIF or JPEG image in a data URL. */
function readImageSize(url: string): Size | undefined {
  const base64 = /^data:image\/[\w.+-]+;base64,/.exec(url)?.[0];
  if (base64 === undefined) return undefined;
  const bytes = Buffer.from(url.slice(base64.length, base64.length + imageCharacters), "base64");
  const size = bytes.length < 24 ? undefined : readSize(bytes);
  return size && size.width > 0 && size.height > 0 ? size : undefined;
}

function readSize(bytes: Buffer): Size | undefined {
  if (bytes.readUInt32BE(0) === 0x89504e47) return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  if (bytes.toString("latin1", 0, 3) === "GIF") return { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
  if (bytes.readUInt16BE(0) !== 0xffd8) return undefined;
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff; at += 2 + bytes.readUInt16BE(at + 2)) {
    const marker = bytes[at + 1] ?? 0;
    // Markers that begin a frame. The excluded markers in the same range begin tables.
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
  }
  return undefined;
}
