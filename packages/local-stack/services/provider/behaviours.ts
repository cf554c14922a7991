/**
 * How the provider's response deviates from a plain, immediate, complete one. The model's name selects the behaviour,
 * and the prompt refines it.
 */
export type Behaviour = {
  /** The failure that is returned instead of a completion. */
  failure?: 400 | 401 | 429 | 500 | 503 | 529 | "full" | "redirect" | "reset" | "hang";
  /** Delay before the first byte, and between two chunks. */
  firstByteMs: number;
  paceMs: number;
  /** What happens after half of the chunks. */
  midway?: "cut" | "stall" | "garbage" | "error";
  /** How the provider reports usage. The truth log (truth-log.ts) always records the actual usage. */
  usage: "plain" | "none" | "zero" | "twice" | "cumulative";
  cachedInput: boolean;
  /** Whether messages have `reasoning_content`, as DeepSeek's do, and tool calls have a signature, as Gemini's do. */
  reasoning: boolean;
  finish?: "length" | "content_filter";
  /** Whether the model calls the first tool regardless of the prompt. */
  callsTools: boolean;
  /** Whether the model calls a tool regardless of `tool_choice` and earlier results. */
  stubborn: boolean;
  /** Whether the model fails after receiving a tool's result. */
  failsLater: boolean;
  /** How many times, one after the other, to call the tool that the prompt asks for. */
  calls?: number;
  /** A number for which the provider says once that the context window is full. */
  full?: number;
  /** Whether the model violates the requested JSON schema. */
  breaksSchema: boolean;
  /** Number of words in the response; by default it depends on the prompt. */
  words?: number;
};

const plain: Behaviour = {
  firstByteMs: 0,
  paceMs: 0,
  usage: "plain",
  cachedInput: false,
  reasoning: false,
  callsTools: false,
  stubborn: false,
  failsLater: false,
  breaksSchema: false,
};

/** Every model of the demo provider, with the behaviour that its name selects. */
export const models: Record<string, Partial<Behaviour>> = {
  "demo-agent": {},
  "demo-chat": {},
  "demo-long": { paceMs: 20, words: 300 },
  "demo-slow": { firstByteMs: 1_500, paceMs: 50 },
  "demo-paced": { paceMs: 20, words: 100 },
  "demo-error-400": { failure: 400 },
  "demo-error-401": { failure: 401 },
  "demo-error-429": { failure: 429 },
  "demo-error-500": { failure: 500 },
  "demo-error-503": { failure: 503 },
  "demo-error-529": { failure: 529 },
  "demo-error-midway": { midway: "error" },
  "demo-error-later": { failsLater: true },
  "demo-redirect": { failure: "redirect" },
  "demo-reset": { failure: "reset" },
  "demo-hang": { failure: "hang" },
  "demo-cut": { midway: "cut", paceMs: 20 },
  "demo-stall": { midway: "stall" },
  "demo-garbage": { midway: "garbage" },
  "demo-no-usage": { usage: "none" },
  "demo-zero-usage": { usage: "zero" },
  "demo-usage-twice": { usage: "twice" },
  "demo-usage-cumulative": { usage: "cumulative" },
  "demo-cached": { cachedInput: true },
  "demo-reasoning": { reasoning: true },
  "demo-length": { finish: "length" },
  "demo-filtered": { finish: "content_filter" },
  "demo-tools": { callsTools: true },
  "demo-stubborn": { callsTools: true, stubborn: true },
  "demo-bad-schema": { breaksSchema: true },
  "demo-messages": {},
  "demo-embedding": {},
  "demo-speech": {},
};

/**
 * Returns the behaviour of a model, refined by `[[words=40 pace=25 first=300 calls=2 full=1]]` (counts and milliseconds)
 * in the user's last message.
 * @returns undefined for an unknown model
 */
export function behaviourOf(model: string, prompt = ""): Behaviour | undefined {
  const named = Object.hasOwn(models, model) ? models[model] : undefined;
  return named && { ...plain, ...named, ...readDirective(prompt) };
}

function readDirective(prompt: string): Partial<Behaviour> {
  const directive = prompt.match(/\[\[([^\]]*)\]\]/)?.[1] ?? "";
  const count = (name: string) => {
    const digits = directive.match(new RegExp(`\\b${name}=(\\d{1,5})\\b`))?.[1];
    return digits === undefined ? undefined : Number(digits);
  };
  const settings = {
    words: count("words"),
    paceMs: count("pace"),
    firstByteMs: count("first"),
    calls: count("calls"),
    full: count("full"),
  };
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}
