/** The seed of a run of the tests. BOOKS_SEED repeats a run. */
export const seed = Number(process.env.BOOKS_SEED ?? 89);

export interface Random {
  /** Returns true with a probability. */
  chance(probability: number): boolean;
  /** Returns an integer from 0, below a limit. */
  integer(below: number): number;
  pick<Item>(items: readonly Item[]): Item;
  /** Returns an amount below 1,000 with some number of decimals, in units of 10^-12. */
  amount(decimals?: number): bigint;
}

/** Returns a generator of random values (mulberry32). */
export function createRandom(start: number): Random {
  let state = start;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (below: number) => Math.floor(next() * below);
  const pick = <Item>(items: readonly Item[]) => items[integer(items.length)] as Item;
  return {
    chance: (probability) => next() < probability,
    integer,
    pick,
    amount: (decimals = pick([2, 2, 6, 12])) =>
      BigInt(1 + integer(10 ** (decimals === 12 ? 9 : decimals + 2))) * 10n ** BigInt(12 - decimals),
  };
}
