/** Speech is 24 kHz, mono, 16 bits. */
const sampleRate = 24_000;
const bytesPerSample = 2;
const headerBytes = 44;

/** The header that makes raw samples a WAV file, which browsers play (RIFF, "Multimedia Programming Interface" 1.0). */
export function wavHeader(sampleBytes: number): Uint8Array<ArrayBuffer> {
  const header = new DataView(new ArrayBuffer(headerBytes));
  const text = (at: number, letters: string) => {
    for (const [index, letter] of [...letters].entries()) header.setUint8(at + index, letter.charCodeAt(0));
  };
  text(0, "RIFF");
  header.setUint32(4, headerBytes - 8 + sampleBytes, true);
  text(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, sampleRate, true);
  header.setUint32(28, sampleRate * bytesPerSample, true);
  header.setUint16(32, bytesPerSample, true);
  header.setUint16(34, bytesPerSample * 8, true);
  text(36, "data");
  header.setUint32(40, sampleBytes, true);
  return new Uint8Array(header.buffer);
}
