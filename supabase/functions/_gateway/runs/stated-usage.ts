import type { TokenCounts } from "../../_shared/money.ts";
import { isObject } from "../structured/canonical.ts";

/** What a provider may count. Thoughts are what OpenAI calls reasoning. */
type StatedCount =
  | "input"
  | "output"
  | "total"
  | "cacheReads"
  | "cacheWrites"
  | "audioInput"
  | "audioOutput"
  | "thoughts";

/** The counts of a usage that can be read. */
export type StatedCounts = Partial<Record<StatedCount, number>>;

type Place = "usage" | "inputDetails" | "outputDetails";

/** Members of a usage and of its details, as OpenAI names them for chat and for responses, then as Gemini does. */
const names: Record<Place, ReadonlyMap<string, StatedCount>> = {
  usage: new Map([
    ["prompt_tokens", "input"],
    ["completion_tokens", "output"],
    ["input_tokens", "input"],
    ["output_tokens", "output"],
    ["total_tokens", "total"],
    ["reasoning_tokens", "thoughts"],
    ["promptTokenCount", "input"],
    ["candidatesTokenCount", "output"],
    ["thoughtsTokenCount", "thoughts"],
    ["totalTokenCount", "total"],
  ]),
  inputDetails: new Map([["audio_tokens", "audioInput"]]),
  outputDetails: new Map([
    ["audio_tokens", "audioOutput"],
    ["reasoning_tokens", "thoughts"],
  ]),
};

/**
 * What a member counts, by its name and place. For cached tokens every provider has a name of its own, such as
 * `cached_tokens`, `prompt_cache_hit_tokens`, `cache_read_input_tokens`, `cache_write_tokens` or `cached_creation_tokens`.
 */
export function countNamed(name: string, place: Place): StatedCount | undefined {
  const ofCache = place !== "outputDetails" && /cache/i.test(name) && /token/i.test(name);
  if (!ofCache) return names[place].get(name);
  if (/writ|creat/i.test(name)) return "cacheWrites";
  return /uncache|no[nt]?_?cache|miss/i.test(name) ? undefined : "cacheReads";
}

/**
 * Reads each count by itself, so that a malformed one loses no other. Where one is stated under several names, the
 * greatest stands: proxies fill in what they do not know with zeros.
 */
export function readStatedCounts(usage: unknown): StatedCounts {
  const stated: StatedCounts = {};
  const note = (members: Record<string, unknown>, place: Place) => {
    for (const [name, value] of Object.entries(members)) {
      const count = readCount(value);
      const named = count === undefined ? undefined : countNamed(name, place);
      if (named && count !== undefined) stated[named] = Math.max(stated[named] ?? 0, count);
    }
  };
  if (!isObject(usage)) return stated;
  note(usage, "usage");
  for (const [name, value] of Object.entries(usage)) {
    const details = /^(?:(prompt|input)|completion|output)_tokens?_details$/.exec(name);
    if (details && isObject(value)) note(value, details[1] ? "inputDetails" : "outputDetails");
  }
  return stated;
}

/** A count of tokens; as text, too, since that is how Protocol Buffers write 64-bit integers in JSON. */
export function readCount(value: unknown): number | undefined {
  const count = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : undefined;
}

/**
 * Turns stated counts into those that have a price. OpenAI counts cached tokens in the input and reasoning in the output.
 * Others count them apart, and the names do not tell, so the numbers decide: parts are apart where they do not fit into
 * their whole, or where the total is input and output and these parts. Otherwise OpenAI's reading stands. What the total
 * has beyond everything that is named is reasoning, as Google counts it. Cache writes are charged as input.
 */
export function toTokenCounts(stated: StatedCounts & { input: number; output: number }): Required<TokenCounts> {
  const { input, output, cacheReads: reads = 0, cacheWrites: writes = 0, thoughts = 0 } = stated;
  const beyond = (stated.total ?? 0) - input - output;
  const readings = [0, writes, reads + writes, reads]
    .filter((cached) => reads + writes - cached <= input)
    .flatMap((cached) => [
      { cached, thought: 0 },
      { cached, thought: thoughts },
    ])
    .filter(({ thought }) => thoughts - thought <= output);
  const apart = readings.find(({ cached, thought }) => cached + thought === beyond) ?? readings[0];
  const { cached, thought } = apart ?? { cached: 0, thought: 0 };
  const unnamed = stated.thoughts === undefined ? Math.max(beyond - cached, 0) : 0;
  const allInput = input + cached;
  const allOutput = output + thought + unnamed;
  return {
    input_tokens: allInput,
    cached_input_tokens: reads,
    audio_input_tokens: Math.min(stated.audioInput ?? 0, allInput - reads),
    output_tokens: allOutput,
    reasoning_tokens: thoughts + unnamed,
    audio_output_tokens: Math.min(stated.audioOutput ?? 0, allOutput),
  };
}

/** What was stated last stands, but a zero takes nothing back: some send zeros before or after their counts. */
export function latestCounts(
  earlier: Required<TokenCounts> | undefined,
  later: Required<TokenCounts>,
): Required<TokenCounts> {
  if (!earlier) return later;
  const counts = { ...later };
  for (const name of Object.keys(counts) as (keyof TokenCounts)[]) counts[name] ||= earlier[name];
  return counts;
}
