/** The tokens of a request that exceeds a model's context window, as its provider states them. */
export type ContextTokens = {
  input: number;
  /** The requested output, if it counts towards the window. */
  output?: number;
  max: number;
};

/** What providers write, in lower case. refusal.test.ts cites their sources. */
const patterns: readonly RegExp[] = [
  // Anthropic
  /too long: (?<input>\d+) tokens? > (?<max>\d+)/,
  /context limit: (?<input>\d+) \+ (?<output>\d+) > (?<max>\d+)/,
  // OpenAI and vLLM
  /context length is (?<max>\d+) tokens.{1,80}?\((?<input>\d+) in the \w+, (?<output>\d+) in the completion\)/,
  /context length is (?<max>\d+) tokens.{1,80}? (?<input>\d+) (?:input )?tokens/,
  // Google, GitHub Copilot and llama.cpp
  /(?<input>\d+)(?: tokens)?\)? exceeds the [^\d]{1,60}(?<max>\d+)/,
  // xAI
  /prompt length is (?<max>\d+) but the request contains (?<input>\d+)/,
  // Mistral
  /prompt contains (?<input>\d+) tokens.{1,60}? with (?<max>\d+) maximum/,
];

/**
 * Reads the counts from the message of an error about the context window.
 * @param message in lower case
 * @returns undefined if the message states no counts, or counts that fit
 */
export function readContextTokens(message: string): ContextTokens | undefined {
  for (const pattern of patterns) {
    const { input, output, max } = pattern.exec(message)?.groups ?? {};
    const tokens = {
      input: Number(input),
      ...(output === undefined ? {} : { output: Number(output) }),
      max: Number(max),
    };
    if (tokens.input + (tokens.output ?? 0) > tokens.max) return tokens;
  }
  return undefined;
}
