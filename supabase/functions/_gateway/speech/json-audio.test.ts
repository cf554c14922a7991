import fc from "fast-check";
import { expect, test } from "vitest";
import { createAudioSplitter } from "./json-audio.ts";

const encoder = new TextEncoder();

function split(pieces: Uint8Array[], maxAudioBytes = 1_000_000) {
  const splitter = createAudioSplitter({ maxAudioBytes });
  for (const piece of pieces) splitter.push(piece);
  const { rest, audio, audioBytes } = splitter.end();
  return { value: JSON.parse(rest), audio: Buffer.concat(audio), audioBytes };
}

/** Splits the bytes of a text into pieces of the given sizes, used in turn. */
function cut(text: string, sizes: number[]): Uint8Array[] {
  const bytes = encoder.encode(text);
  const pieces: Uint8Array[] = [];
  for (let at = 0, n = 0; at < bytes.length; n++) {
    const size = sizes[n % sizes.length] ?? 1;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

const inlineData = (data: Uint8Array) => ({
  mimeType: 'audio/L16;"odd\\"',
  data: Buffer.from(data).toString("base64"),
});

test("extracts audio from a JSON answer that arrives in pieces of any size", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 100 }),
      fc.uint8Array({ maxLength: 50 }),
      fc.array(fc.integer({ min: 1, max: 41 }), { minLength: 1, maxLength: 20 }),
      fc.string({ unit: fc.constantFrom(...'data":\\ {}ü🦊') }),
      fc.constantFrom(0, 2),
      (one, other, sizes, text, spaces) => {
        const answer = {
          text,
          parts: [{ inlineData: inlineData(one) }, { inlineData: inlineData(other) }],
          end: '"data":"',
        };
        const { value, audio, audioBytes } = split(cut(JSON.stringify(answer, null, spaces), sizes));
        expect(audio).toEqual(Buffer.concat([one, other]));
        expect(audioBytes).toBe(one.length + other.length);
        for (const part of answer.parts) part.inlineData.data = "";
        expect(value).toEqual(answer);
      },
    ),
    { numRuns: 200 },
  );
});

test("decodes escapes within the audio", () => {
  const audio = Uint8Array.of(255, 255, 254, 0);
  const text = JSON.stringify({ data: Buffer.from(audio).toString("base64") });
  const escaped = text.replaceAll("/", "\\/").replaceAll("=", "\\u003d");
  expect(escaped).not.toBe(text);
  for (const size of [1, 2, 3, 100]) expect(split(cut(escaped, [size])).audio).toEqual(Buffer.from(audio));
});

test("accepts audio up to its size limit and not a byte more, and refuses a JSON answer with too much text", () => {
  const answer = (bytes: number) => [encoder.encode(JSON.stringify({ data: Buffer.alloc(bytes).toString("base64") }))];
  expect(split(answer(999), 999).audioBytes).toBe(999);
  expect(() => split(answer(1_000), 999)).toThrow(RangeError);
  expect(() => split([encoder.encode(JSON.stringify({ text: "x".repeat(2_000_000) }))])).toThrow(RangeError);
});
