import { describe, expect, test } from "vitest";
import { wavHeader } from "../speech/wav.ts";
import { estimateAudioSeconds, estimateImageTokens } from "./media.ts";

const base64 = (...parts: Uint8Array[]) => Buffer.concat(parts).toString("base64");

describe("audioSeconds", () => {
  const wav = (...parts: Uint8Array[]) => estimateAudioSeconds({ format: "wav", data: base64(...parts) });
  const mp3 = (...parts: Uint8Array[]) => estimateAudioSeconds({ format: "mp3", data: base64(...parts) });

  test("computes a WAV file's duration from the byte rate in its header", () => {
    expect(wav(wavHeader(240_000), Buffer.alloc(240_000))).toBeCloseTo(5, 2);
    const list = Buffer.concat([Buffer.from("LIST"), Buffer.from([4, 0, 0, 0]), Buffer.alloc(4)]);
    const header = Buffer.from(wavHeader(240_000));
    expect(wav(header.subarray(0, 12), list, header.subarray(12), Buffer.alloc(240_000))).toBeCloseTo(5, 2);
  });

  test("assumes 16 kHz if a WAV header states no valid rate", () => {
    for (const rate of [0, 999, 400_001, 0xffffffff]) {
      const header = Buffer.from(wavHeader(160_000));
      header.writeUInt32LE(rate, 28);
      expect(wav(header, Buffer.alloc(160_000))).toBeCloseTo(5, 2);
    }
    expect(wav(Buffer.alloc(160_000))).toBe(5);
    expect(wav(Buffer.from("RIFF"))).toBeLessThan(1);
    expect(wav()).toBe(0);
  });

  test("audioSeconds accepts a WAV header with the lowest or the highest allowed byte rate", () => {
    for (const rate of [1_000, 400_000]) {
      const header = Buffer.from(wavHeader(0));
      header.writeUInt32LE(rate, 28);
      expect(wav(header, Buffer.alloc(rate))).toBeCloseTo(1 + 44 / rate, 5);
    }
  });

  test("computes an MP3 file's duration from the bit rate of its first frame", () => {
    // 64 kbit/s of MPEG 1 layer III, then 32 kbit/s of MPEG 2 layer III:
    // http://www.mp3-tech.org/programmer/frame_header.html
    expect(mp3(Buffer.from([0xff, 0xfb, 0x50, 0xc4]), Buffer.alloc(39_996))).toBe(5);
    expect(mp3(Buffer.from([0xff, 0xf3, 0x40, 0xc4]), Buffer.alloc(19_996))).toBe(5);
    const tag = Buffer.concat([Buffer.from("ID3"), Buffer.from([4, 0, 0, 0, 0, 1, 0]), Buffer.alloc(128)]);
    expect(mp3(tag, Buffer.from([0xff, 0xfb, 0x50, 0xc4]), Buffer.alloc(39_858))).toBe(5);
    expect(mp3(Buffer.alloc(80_000))).toBe(5);
  });
});

describe("imageTokens", () => {
  const png = (width: number, height: number) => {
    const bytes = Buffer.alloc(24);
    bytes.writeUInt32BE(0x89504e47, 0);
    bytes.writeUInt32BE(width, 16);
    bytes.writeUInt32BE(height, 20);
    return `data:image/png;base64,${bytes.toString("base64")}`;
  };

  // https://platform.openai.com/docs/guides/images-vision#calculating-costs
  test("imageTokens returns OpenAI's counts for its own examples", () => {
    expect(estimateImageTokens(png(1_024, 1_024), "high")).toBe(765);
    expect(estimateImageTokens(png(2_048, 4_096), "high")).toBe(1_105);
    expect(estimateImageTokens(png(4_096, 8_192), "low")).toBe(85);
  });

  test("counts one tile for an image of up to 512 pixels, and never more than ten tiles", () => {
    expect(estimateImageTokens(png(512, 512))).toBe(255);
    expect(estimateImageTokens(png(513, 512))).toBe(425);
    expect(estimateImageTokens(png(1, 100_000))).toBeLessThanOrEqual(1_500);
  });

  test("reads the size of a GIF and a JPEG, and assumes 1,024 pixels for an image of unknown size", () => {
    const gif = Buffer.concat([Buffer.from("GIF89a"), Buffer.from([0, 2, 0, 2]), Buffer.alloc(16)]);
    expect(estimateImageTokens(`data:image/gif;base64,${gif.toString("base64")}`)).toBe(255);
    const thumbnail = Buffer.concat([Buffer.from([0xff, 0xe1, 0, 12]), Buffer.alloc(10)]);
    const frame = Buffer.from([0xff, 0xc0, 0, 17, 8, 2, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0]);
    const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8]), thumbnail, frame]);
    expect(estimateImageTokens(`data:image/jpeg;base64,${jpeg.toString("base64")}`)).toBe(255);
    for (const url of [
      "https://example.com/a.png",
      "data:image/png;base64,",
      "data:image/webp;base64,AAAA",
      png(0, 5),
    ]) {
      expect(estimateImageTokens(url)).toBe(765);
    }
  });
});
