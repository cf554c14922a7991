import { createHash } from "node:crypto";
import { z } from "zod";

/** Samples per second. A sample is mono with 16 bits, little endian. */
export const sampleRate = 24_000;
const secondsPerCharacter = 0.05;
const amplitude = 0.2 * 0x7fff;

/** The body of `POST /v1/audio/speech`. */
export const speechRequest = z.looseObject({
  model: z.string(),
  input: z.string().min(1).max(10_000),
  voice: z.string().default("alloy"),
  response_format: z.enum(["wav", "pcm"]).nullish(),
});

/** Renders a tone as raw PCM or with a RIFF header. */
export function synthesize({ input, voice, response_format: format }: z.infer<typeof speechRequest>): Buffer {
  const pcm = tone({ input, voice });
  return format === "pcm" ? pcm : Buffer.concat([wavHeader(pcm.length), pcm]);
}

/**
 * Generates a tone whose length depends on the text and whose pitch depends on the voice's name. The tone is clearly
 * not speech, and always the same for the same input.
 */
export function tone({ input, voice }: { input: string; voice: string }): Buffer {
  const pitchHz = 220 + (createHash("sha256").update(voice).digest()[0] ?? 0);
  const samples = Math.round([...input].length * secondsPerCharacter * sampleRate);
  const pcm = Buffer.alloc(samples * 2);
  for (let i = 0; i < samples; i++) {
    pcm.writeInt16LE(Math.round(amplitude * Math.sin((2 * Math.PI * pitchHz * i) / sampleRate)), i * 2);
  }
  return pcm;
}

/** Returns a RIFF/WAVE header for linear PCM. */
function wavHeader(bytes: number): Buffer {
  const header = Buffer.alloc(44);
  header.write("RIFF", 0, "ascii");
  header.writeUInt32LE(36 + bytes, 4);
  header.write("WAVEfmt ", 8, "ascii");
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(sampleRate, 24);
  header.writeUInt32LE(sampleRate * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write("data", 36, "ascii");
  header.writeUInt32LE(bytes, 40);
  return header;
}
