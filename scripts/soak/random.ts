/** Random values that are the same for the same seed. */
export interface Random {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  next(): number;
  /** Returns an integer from 0 (inclusive) to `n` (exclusive). */
  below(n: number): number;
  chance(p: number): boolean;
  /** Returns a number from `low` (inclusive) to `high` (exclusive). */
  between(low: number, high: number): number;
  oneOf<Item>(items: readonly Item[]): Item;
  /** Picks a name by weight: `{ read: 3, write: 1 }` returns `read` three times out of four. */
  weighted<Name extends string>(weights: Record<Name, number>): Name;
  shuffled<Item>(items: readonly Item[]): Item[];
  /** Returns 128 bits in hex. */
  id(): string;
  /** Returns an independent generator for one actor, unaffected by what other actors draw. */
  fork(name: string): Random;
}

/** Returns a Mulberry32 generator with a 32-bit seed. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = (n: number) => Math.floor(next() * n);
  return {
    next,
    below,
    chance: (p) => next() < p,
    between: (low, high) => low + next() * (high - low),
    oneOf(items) {
      const item = items[below(items.length)];
      if (item === undefined) throw new Error("nothing to choose from");
      return item;
    },
    weighted(weights) {
      const entries = Object.entries(weights) as [keyof typeof weights, number][];
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [name, weight] of entries) {
        left -= weight;
        if (left < 0) return name;
      }
      throw new Error("nothing to choose from");
    },
    shuffled(items) {
      const left = [...items];
      for (let at = left.length - 1; at > 0; at -= 1) {
        const other = below(at + 1);
        [left[at], left[other]] = [left[other] as (typeof left)[number], left[at] as (typeof left)[number]];
      }
      return left;
    },
    id: () =>
      Array.from({ length: 4 }, () =>
        below(2 ** 32)
          .toString(16)
          .padStart(8, "0"),
      ).join(""),
    fork: (name) => createRandom(hashOf(`${seed} ${name}`)),
  };
}

/** Returns the FNV-1a hash of a text. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const letter of text) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return hash;
}
