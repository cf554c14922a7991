import { Buffer } from "node:buffer";

/** Maximum size of an answer, not counting its audio. */
const maxRestBytes = 1024 * 1024;
const [quote, backslash] = [0x22, 0x5c];

/** A JSON answer and the audio removed from it. In `rest`, every string named `data` is empty. */
export type SplitAnswer = { rest: string; audio: Uint8Array[]; audioBytes: number };

/**
 * Extracts the base64 audio from a JSON answer as it arrives. Holding the whole text, its values and the audio would
 * take several times the memory of an isolate.
 */
export function createAudioSplitter({ maxAudioBytes }: { maxAudioBytes: number }) {
  const decoder = new TextDecoder("utf-8");
  const audio: Uint8Array[] = [];
  let audioBytes = 0;
  let rest = "";
  /** Whether a string is open, whether it is audio, and whether its next character is escaped. */
  let inside: "audio" | "text" | undefined;
  let escaped = false;
  let base64 = "";

  /**
   * Takes the next bytes.
   * @throws RangeError if the answer is too large
   */
  function push(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      const end = inside === "audio" ? endOfAudio(bytes, at) : endOfRest(bytes, at);
      if (inside === "audio") takeAudio(bytes.subarray(at, end));
      else takeRest(bytes.subarray(at, end));
      at = end;
      if (at < bytes.length && bytes[at] === quote) at = turn(at);
    }
  }

  /** Handles the quote that opens or closes a string. */
  function turn(at: number): number {
    if (inside === "audio") flush(true);
    const opens = inside === undefined;
    inside = opens ? (/"data"\s*:\s*$/.test(rest.slice(-32)) ? "audio" : "text") : undefined;
    rest += '"';
    return at + 1;
  }

  function endOfAudio(bytes: Uint8Array, from: number): number {
    const end = bytes.indexOf(quote, from);
    return end < 0 ? bytes.length : end;
  }

  /** Returns the position of the next quote that opens or closes a string. */
  function endOfRest(bytes: Uint8Array, from: number): number {
    for (let at = from; at < bytes.length; at++) {
      if (escaped) escaped = false;
      else if (bytes[at] === backslash) escaped = inside === "text";
      else if (bytes[at] === quote) return at;
    }
    return bytes.length;
  }

  function takeRest(bytes: Uint8Array): void {
    rest += decoder.decode(bytes, { stream: true });
    if (rest.length > maxRestBytes) throw new RangeError("too much text around the audio");
  }

  function takeAudio(bytes: Uint8Array): void {
    base64 += Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
    flush(false);
  }

  /** Decodes complete groups of base64, of four characters each. Some servers escape `=` and `/`. */
  function flush(last: boolean): void {
    if (base64.includes("\\")) {
      if (!last) return;
      base64 = String(JSON.parse(`"${base64}"`));
    }
    const whole = last ? base64.length : base64.length - (base64.length % 4);
    if (whole === 0) return;
    const decoded = Buffer.from(base64.slice(0, whole), "base64");
    base64 = base64.slice(whole);
    audioBytes += decoded.length;
    if (audioBytes > maxAudioBytes) throw new RangeError("too much audio");
    audio.push(decoded);
  }

  return { push, end: (): SplitAnswer => ({ rest: rest + decoder.decode(), audio, audioBytes }) };
}
