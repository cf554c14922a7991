import type { ContextTokens } from "../http/errors.ts";

/** What providers write, in lower case. refusal.test.ts cites their sources. */
const patterns: readonly RegExp[] = [
  // Anthropic
  /too long: (?<input>\d+) tokens? > (?<max>\d+)/,
  /context limit: (?<input>\d+) \+ (?<output>\d+) > (?<max>\d+)/,
  // OpenAI, OpenRouter, SGLang and vLLM
  /context length (?:is|of) (?<max>\d+) tokens.{1,40}?requested (?:about |a total of )?(?<total>\d+) tokens.{1,80}? (?<output>\d+) (?:tokens )?(?:in|for) the (?:output|completion)/,
  /context length is (?<max>\d+) tokens.{1,40}?requested (?<output>\d+) output tokens.{1,60}? (?<input>\d+) input tokens/,
  /too large: (?<output>\d+)\..{1,40}?context length is (?<max>\d+) tokens.{1,60}? (?<input>\d+) input tokens/,
  /context length is (?<max>\d+) tokens(?:(?!requested).){1,80}? (?<input>\d+) (?:input )?tokens/,
  /input \((?<input>\d+) tokens\) is longer than the [^\d]{1,60}(?<max>\d+)/,
  // Google, GitHub Copilot and llama.cpp
  /(?<input>\d+)(?: tokens)?\)? exceeds the [^\d]{1,60}(?<max>\d+)/,
  // xAI
  /prompt length is (?<max>\d+) but the request contains (?<input>\d+)/,
  // Mistral
  /prompt contains (?<input>\d+) tokens.{1,60}? with (?<max>\d+) maximum/,
  // Cohere
  /tokens in the prompt cannot exceed (?<max>\d+) - received (?<input>\d+)/,
  // llama.cpp, whose error has members for the counts
  /^(?=.*"n_prompt_tokens"\s*:\s*(?<input>\d+))(?=.*"n_ctx"\s*:\s*(?<max>\d+))/s,
];
const thousands = /(?<=\d),(?=\d{3}(?!\d))/g;

/**
 * Reads the counts from the texts of an error about the context window.
 * @param texts the error's messages in lower case, and its JSON
 * @returns undefined if the texts state no counts, or counts that fit
 */
export function readContextTokens(...texts: readonly string[]): ContextTokens | undefined {
  const plain = texts.map((each) => each.replace(thousands, ""));
  for (const pattern of patterns) {
    const groups = plain.map((each) => pattern.exec(each)?.groups).find(Boolean);
    const { output, max, total, input = Number(total) - Number(output) } = groups ?? {};
    const tokens = {
      input: Number(input),
      ...(output === undefined ? {} : { output: Number(output) }),
      max: Number(max),
    };
    if (tokens.input + (tokens.output ?? 0) > tokens.max) return tokens;
  }
  return undefined;
}
