import { expect, test } from "vitest";
import { readSoakOptions } from "../options.ts";
import { createRandom } from "../random.ts";
import { planFaults } from "./plan.ts";

const plan = (seed: number, { trafficMs = 30 * 60_000, scale = false, switchPrimary = false } = {}) =>
  planFaults({ quick: false, scale, switchPrimary, trafficMs, random: createRandom(seed) });

test("plans the same faults for the same seed", () => {
  expect(plan(7)).toEqual(plan(7));
  expect(plan(7)).not.toEqual(plan(8));
});

test("a 30-minute fault plan has every kind of fault, one at a time, and does not restart web, functions, identity or gateway in the middle half", () => {
  for (const seed of [1, 2, 3]) {
    const faults = plan(seed);
    expect(new Set(faults.map(({ kind }) => kind)).size).toBe(15);
    for (const [n, { atMs, forMs }] of faults.entries()) {
      expect((faults[n + 1]?.atMs ?? Number.POSITIVE_INFINITY) - atMs - forMs).toBeGreaterThan(13_000);
    }
    const middle = faults.filter(({ atMs }) => atMs > 7.5 * 60_000 && atMs < 22.5 * 60_000);
    expect(middle.filter(({ kind }) => /^(web|functions|identity|gateway)/.test(kind))).toEqual([]);
  }
});

test("the fault plan kills each of several servers within ten minutes", () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const killed = plan(seed, { scale: true, trafficMs: 10 * 60_000 }).flatMap(
      ({ kind }) => /^(\S+) SIG/.exec(kind)?.[1] ?? [],
    );
    expect([...new Set(killed)].toSorted()).toEqual([
      ...["functions", "functions-2", "functions-3", "gateway", "identity", "pgbouncer", "postgres", "web", "web-2"],
    ]);
  }
});

test.each([false, true])(
  "the fault plan kills no service more than three times a minute, the stack's limit for restarts (scale: %s)",
  (scale) => {
    for (let seed = 0; seed < 50; seed += 1) {
      const deaths = plan(seed, { scale }).filter(({ kind }) => kind.includes("SIG"));
      for (const { kind, atMs } of deaths) {
        const name = kind.split(" ")[0] ?? "";
        const within = deaths.filter(
          (other) => other.kind.startsWith(`${name} `) && other.atMs >= atMs && other.atMs < atMs + 60_000,
        );
        expect(within.length).toBeLessThanOrEqual(3);
      }
    }
  },
);

test("with a standby, the fault plan loses the primary in each way within three minutes", () => {
  const faults = plan(1, { switchPrimary: true, trafficMs: 3 * 60_000 });
  expect(faults.map(({ kind }) => kind)).toEqual(["postgres switchover", "postgres crash", "postgres node crash"]);
  expect(plan(1, { switchPrimary: true, trafficMs: 60_000 }).length).toBe(1);
});

test("each actor's random numbers depend only on the seed and the actor's name", () => {
  const draw = (name: string) =>
    Array.from(
      { length: 5 },
      (
        (random) => () =>
          random.next()
      )(createRandom(5).fork(name)),
    );
  expect(draw("a")).toEqual(draw("a"));
  expect(draw("a")).not.toEqual(draw("b"));
  const random = createRandom(5);
  const drawn = Array.from({ length: 10_000 }, () => random.weighted({ often: 3, seldom: 1, never: 0 }));
  expect(drawn.filter((one) => one === "often").length / drawn.length).toBeCloseTo(0.75, 1);
  expect(drawn).not.toContain("never");
  expect(new Set(random.shuffled([1, 2, 3, 4])).size).toBe(4);
});

test.each([
  ["--minutes", "0.9"],
  ["--minutes", "1441"],
  ["--seed", "-1"],
  ["--seed", "a"],
  ["--quick", "--minutes", "3"],
  ["--quick", "--scale"],
  ["--switch-primary", "--quick"],
  ["--switch-primary", "--scale"],
  ["--fast"],
])("the soak test refuses the command-line options %s %s", (...args) => {
  expect(() => readSoakOptions(args)).toThrow();
});

test("the soak's duration defaults to thirty minutes, and its seed can be given", () => {
  expect(readSoakOptions([]).trafficMs).toBe(30 * 60_000);
  expect(readSoakOptions(["--minutes", "1", "--seed", "4294967295"])).toMatchObject({
    trafficMs: 60_000,
    seed: 2 ** 32 - 1,
  });
});
