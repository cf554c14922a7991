import { pcmFormat } from "./gemini-answer.ts";

const headerBytes = 44;

/** Returns the RIFF/WAVE header for the given number of bytes of linear PCM in our format. */
export function wavHeader(bytes: number): Uint8Array<ArrayBuffer> {
  const { sampleRate, bytesPerSample, channels } = pcmFormat;
  const header = new DataView(new ArrayBuffer(headerBytes));
  const text = (at: number, word: string) => {
    for (let n = 0; n < word.length; n++) header.setUint8(at + n, word.charCodeAt(n));
  };
  text(0, "RIFF");
  header.setUint32(4, headerBytes - 8 + bytes, true);
  text(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, channels, true);
  header.setUint32(24, sampleRate, true);
  header.setUint32(28, sampleRate * bytesPerSample * channels, true);
  header.setUint16(32, bytesPerSample * channels, true);
  header.setUint16(34, bytesPerSample * 8, true);
  text(36, "data");
  header.setUint32(40, bytes, true);
  return new Uint8Array(header.buffer);
}
