import { capParts } from "./limits.ts";
import type { StatedCounts } from "./stated-counts.ts";
import type { CallCounts } from "./usage.ts";

/**
 * Converts stated counts to OpenAI's form, where the input includes cached tokens and the output includes reasoning.
 * Some providers count cached tokens or reasoning separately, under the same names. These parts are separate if they
 * are larger than the count that should include them, or if the stated total is reached only by adding them. If the
 * total exceeds all named counts and no reasoning is stated, the difference is reasoning, as in Google's counts. A
 * stated reasoning of 0, which proxies add, counts as not stated.
 */
export function toTokenCounts(
  stated: StatedCounts & { input: number; output: number },
  { cacheIsSeparate = false, reasoningIsSeparate = false } = {},
): CallCounts {
  const { input, output, cacheReads: reads = 0, reasoning = 0, toolInput = 0, citations = 0 } = stated;
  const hourWrites = stated.cacheWrites1h ?? 0;
  const writes = Math.max(stated.cacheWrites ?? 0, hourWrites + (stated.cacheWrites5m ?? 0));
  const beyond = (stated.total ?? 0) - input - output - toolInput;
  const readings = (cacheIsSeparate ? [reads + writes] : [0, writes, reads + writes, reads])
    .filter((cached) => reads + writes - cached <= input)
    .flatMap((cached) => [
      { cached, thought: 0 },
      { cached, thought: reasoning },
    ])
    .filter(({ thought }) => reasoning - thought <= output && (!reasoningIsSeparate || thought === reasoning));
  const apart = readings.find(({ cached, thought }) => cached + thought === beyond) ?? readings[0];
  const { cached, thought } = apart ?? { cached: 0, thought: 0 };
  const unnamed = reasoning === 0 ? Math.max(beyond - cached, 0) : 0;
  const allInput = input + cached + toolInput + citations;
  const allOutput = output + thought + unnamed;
  const audioInput = stated.audioInput ?? 0;
  const imageInput = stated.imageInput ?? 0;
  const audioOutput = stated.audioOutput ?? 0;
  return capParts({
    input_tokens: allInput + countIf(audioInput > allInput, audioInput) + countIf(imageInput > allInput, imageInput),
    cached_input_tokens: reads,
    cache_write_tokens: writes - hourWrites,
    cache_write_1h_tokens: hourWrites,
    audio_input_tokens: audioInput,
    image_input_tokens: imageInput,
    output_tokens: allOutput + countIf(audioOutput > allOutput, audioOutput),
    reasoning_tokens: reasoning + unnamed,
    audio_output_tokens: audioOutput,
  });
}

function countIf(isLarger: boolean, count: number): number {
  return isLarger ? count : 0;
}
