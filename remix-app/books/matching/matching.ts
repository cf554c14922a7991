import { providerPage } from "../book.ts";

/** What a provider can be asked about a day: its usage by hour, or the cost of each call (generation). */
export type Matching = "hours" | "generations";

/** The providers that can be asked about a day, and what they are asked for. */
const matchings: ReadonlyMap<string, Matching> = new Map([
  ["openai", "hours"],
  ["anthropic", "hours"],
  ["openrouter", "generations"],
]);

/** Returns how a provider's days can be compared with single calls, or null if they can't. */
export function matchingOf(provider: string): Matching | null {
  return matchings.get(provider) ?? null;
}

/** Returns the path of the page that finds the calls behind a difference on a provider's UTC day. */
export function dayPage({ provider, day }: { provider: string; day: string }): string {
  return `${providerPage({ month: day.slice(0, 7), provider })}/${day}`;
}
