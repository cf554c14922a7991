import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createAdmissions } from "./admissions.ts";

class Undone extends Error {}

/** Admissions whose answers come when told to; each answer is its request, doubled. */
function open(
  fails: (requests: readonly number[]) => Error | undefined = () => undefined,
  { mayFollow = () => true }: { mayFollow?: () => boolean } = {},
) {
  const asked: (readonly number[])[] = [];
  const behind: (readonly number[])[] = [];
  const answering: (() => void)[] = [];
  const clock = { now: 0 };
  const answer = async (requests: readonly number[]) => {
    asked.push(requests);
    await new Promise<void>((resolve) => answering.push(resolve));
    const error = fails(requests);
    if (error) throw error;
    return requests.map((request) => request * 2);
  };
  const admit = createAdmissions<number, number>({
    askAlone: async (request) => (await answer([request]))[0] ?? 0,
    askTogether: answer,
    mayFollow,
    askBehind: (requests) => {
      behind.push(requests);
      return answer(requests);
    },
    wasUndone: (error) => error instanceof Undone,
    isApart: (request) => request < 0,
    now: () => clock.now,
  });
  /** Lets so many that were asked first be answered. */
  const go = async (most = answering.length) => {
    for (const each of answering.splice(0, most)) each();
    await sleep(0);
    // A timer may come before the turn's end, at which the next batch is asked about.
    await setImmediate();
  };
  /** As many as given, a turn of the event loop each. */
  const admitInTurn = async (requests: readonly number[]) => {
    const admitted: Promise<number>[] = [];
    for (const request of requests) {
      admitted.push(admit(request));
      await setImmediate();
    }
    return admitted;
  };
  /** As many as given, of one turn. */
  const admitTogether = async (requests: readonly number[]) => {
    const admitted = requests.map(admit);
    await setImmediate();
    return admitted;
  };
  return { admit, admitInTurn, admitTogether, asked, behind, go, clock };
}

describe("admissions", () => {
  test("ask about those together that come in one turn of the event loop", async () => {
    const { admit, asked, go } = open();
    const answers = Promise.all([1, 2, 3].map(admit));
    await setImmediate();
    expect(asked).toEqual([[1, 2, 3]]);
    await go();
    expect(await answers).toEqual([2, 4, 6]);
  });

  test("ask about a call at once, and about those that come meanwhile together", async () => {
    const { admitInTurn, asked, go } = open();
    const answers = Promise.all(await admitInTurn([1, 2, 3, 4, 5]));
    expect(asked).toEqual([[1]]);
    await go();
    expect(asked).toEqual([[1], [2, 3, 4, 5]]);
    await go();
    expect(await answers).toEqual([2, 4, 6, 8, 10]);
  });

  test.for([
    ["before", 4, 2],
    ["after", 3, 1],
  ])("ask about the next %s the answers are handed on, where %i wait", async ([, waiting, batches]) => {
    const { admit, asked, go } = open();
    const first = admit(1).then(() => asked.length);
    await setImmediate();
    const answers = Array.from({ length: Number(waiting) }, (_, place) => admit(place));
    await go();
    expect(await first).toBe(batches);
    await go();
    await Promise.all(answers);
  });

  test("ask beside a batch that takes long, and no third beside two", async () => {
    const { admit, admitInTurn, asked, go } = open();
    const answers = await admitInTurn([1, 2, 3]);
    expect(asked).toEqual([[1]]);
    await sleep(100);
    expect(asked).toEqual([[1], [2, 3]]);
    answers.push(admit(4));
    await sleep(100);
    expect(asked).toEqual([[1], [2, 3]]);
    await go();
    await go();
    expect(asked).toEqual([[1], [2, 3], [4]]);
    expect(await Promise.all(answers)).toEqual([2, 4, 6, 8]);
  });

  test.for([
    [32, 2],
    [33, 3],
  ])("take 32 together at most: %i", async ([more = 0, batches]) => {
    const { admit, admitInTurn, asked, go } = open();
    const first = await admitInTurn([1]);
    const answers = Promise.all([...first, ...Array.from({ length: more }, (_, place) => admit(place))]);
    for (let round = 0; round < (batches ?? 0); round++) await go();
    await answers;
    expect(asked).toHaveLength(batches ?? 0);
  });

  test.for([
    [500, 0],
    [501, 1],
  ])("let 500 wait at most: %i", async ([more = 0, refused]) => {
    const { admit, admitInTurn, go } = open();
    const first = await admitInTurn([1]);
    const answers = Promise.allSettled([...first, ...Array.from({ length: more }, (_, place) => admit(place))]);
    for (let round = 0; round < 20; round++) await go();
    expect((await answers).filter(({ status }) => status === "rejected")).toHaveLength(refused ?? 0);
  });

  test("ask about each alone where a batch was undone, so that one call's failure is its own", async () => {
    const { admitInTurn, asked, go } = open((requests) => (requests.includes(4) ? new Undone() : undefined));
    const answers = Promise.allSettled(await admitInTurn([1, 2, 3, 4, 5]));
    for (let round = 0; round < 3; round++) await go();
    expect(asked).toEqual([[1], [2, 3, 4, 5], [2], [3], [4], [5]]);
    expect((await answers).map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
  });

  test("ask nothing twice where nobody knows whether it was done", async () => {
    const { admitInTurn, asked, go } = open((requests) => (requests.includes(4) ? new Error("gone") : undefined));
    const answers = Promise.allSettled(await admitInTurn([1, 2, 3, 4, 5]));
    for (let round = 0; round < 3; round++) await go();
    expect(asked).toEqual([[1], [2, 3, 4, 5]]);
    const statuses = (await answers).map(({ status }) => status);
    expect(statuses).toEqual(["fulfilled", "rejected", "rejected", "rejected", "rejected"]);
  });

  test("do not let calls that are asked about again hold up those that come", async () => {
    const { admit, admitInTurn, asked, go } = open((requests) => (requests.length > 1 ? new Undone() : undefined));
    const answers = Promise.all(await admitInTurn([1, 2, 3, 4]));
    await go();
    await go();
    const late = admit(9);
    await setImmediate();
    expect(asked.at(-1)).toEqual([9]);
    await go();
    expect(await Promise.all([answers, late])).toEqual([[2, 4, 6, 8], 18]);
  });

  test("ask about four alone at most at once, whose answers no other call waits for", async () => {
    const { admit, asked, go } = open();
    const answers = Promise.all([-1, -2, -3, -4, -5, 6].map(admit));
    await setImmediate();
    expect(asked).toEqual([[-1], [-2], [-3], [-4], [6]]);
    await go();
    expect(asked.slice(5)).toEqual([[-5]]);
    await go();
    expect(await answers).toEqual([-2, -4, -6, -8, -10, 12]);
  });

  test("ask about four alone at most at once of a batch that was undone, too", async () => {
    const { admitInTurn, asked, go } = open((requests) => (requests.length > 1 ? new Undone() : undefined));
    const answers = Promise.all(await admitInTurn([0, 1, 2, 3, 4, 5, 6]));
    await go();
    await go();
    expect(asked.slice(2)).toEqual([[1], [2], [3], [4]]);
    await go();
    expect(asked.slice(6)).toEqual([[5], [6]]);
    await go();
    await answers;
  });

  test.for([
    [500, 0],
    [501, 1],
  ])("let 500 wait for being asked about alone at most: %i", async ([more = 0, refused]) => {
    const { admit, go } = open();
    const answers = Promise.allSettled(Array.from({ length: 4 + more }, (_, place) => admit(-1 - place)));
    for (let round = 0; round < 130; round++) await go();
    expect((await answers).filter(({ status }) => status === "rejected")).toHaveLength(refused ?? 0);
  });

  test.for([
    [2_000, "fulfilled"],
    [2_001, "rejected"],
  ] as const)("ask about nobody alone who has waited longer than two seconds: %i ms", async ([waited, status]) => {
    const { admit, asked, go, clock } = open();
    const answers = Promise.allSettled([-1, -2, -3, -4, -5].map(admit));
    clock.now = waited;
    await go();
    await go();
    expect((await answers).at(-1)).toMatchObject({ status });
    expect(asked).toHaveLength(status === "fulfilled" ? 5 : 4);
  });
});

describe("a batch that is sent behind another", () => {
  test.for([
    { underWay: [1, 2], come: [3, 4, 5], behind: [] },
    { underWay: [1, 2], come: [3, 4, 5, 6], behind: [[3, 4, 5, 6]] },
    { underWay: [1, 2, 3, 4, 5, 6], come: [11, 12, 13, 14, 15], behind: [] },
    { underWay: [1, 2, 3, 4, 5, 6], come: [11, 12, 13, 14, 15, 16], behind: [[11, 12, 13, 14, 15, 16]] },
    { underWay: [1], come: [11, 12, 13, 14, 15, 16], behind: [] },
  ])("is of four and more, and no fewer than are under way: $come.length behind $underWay.length", async (given) => {
    const { admitTogether, behind, go } = open();
    const answers = [...(await admitTogether(given.underWay)), ...(await admitTogether(given.come))];
    expect(behind).toEqual(given.behind);
    await go();
    await go();
    expect(await Promise.all(answers)).toEqual([...given.underWay, ...given.come].map((request) => request * 2));
  });

  test("has none behind itself until it is the first, and then one", async () => {
    const { admitTogether, asked, behind, go } = open();
    const answers = await admitTogether([1, 2]);
    answers.push(...(await admitTogether([11, 12, 13, 14])), ...(await admitTogether([21, 22, 23, 24])));
    expect(behind).toEqual([[11, 12, 13, 14]]);
    await go(1);
    expect(behind).toEqual([
      [11, 12, 13, 14],
      [21, 22, 23, 24],
    ]);
    expect(asked).toHaveLength(3);
    await go();
    expect(await Promise.all(answers)).toEqual([2, 4, 22, 24, 26, 28, 42, 44, 46, 48]);
  });

  test("is not sent where the database's connection does not allow it", async () => {
    const { admitTogether, asked, behind, go } = open(() => undefined, { mayFollow: () => false });
    const answers = [...(await admitTogether([1, 2])), ...(await admitTogether([3, 4, 5, 6]))];
    expect(asked).toEqual([[1, 2]]);
    await go();
    await go();
    expect([asked, behind]).toEqual([
      [
        [1, 2],
        [3, 4, 5, 6],
      ],
      [],
    ]);
    await Promise.all(answers);
  });

  test("is not sent behind one that is late, but beside it, and has one behind itself only once that is answered", async () => {
    const { admitTogether, asked, behind, go } = open();
    const answers = await admitTogether([1, 2]);
    await sleep(100);
    answers.push(...(await admitTogether([3, 4, 5, 6])));
    answers.push(...(await admitTogether([11, 12, 13, 14])));
    expect([asked, behind]).toEqual([
      [
        [1, 2],
        [3, 4, 5, 6],
      ],
      [],
    ]);
    await go(1);
    expect(behind).toEqual([[11, 12, 13, 14]]);
    await go();
    await Promise.all(answers);
  });

  test("that is sent before the first one is late holds up nobody who comes after it", async () => {
    const { admitTogether, asked, go } = open();
    const answers = [...(await admitTogether([1, 2])), ...(await admitTogether([3, 4, 5, 6]))];
    await sleep(100);
    answers.push(...(await admitTogether([7])));
    expect(asked).toEqual([[1, 2], [3, 4, 5, 6], [7]]);
    await go();
    await Promise.all(answers);
  });

  test("is answered where the first was undone, whose calls are asked about alone", async () => {
    const { admitTogether, asked, go } = open((requests) => (requests.includes(2) ? new Undone() : undefined));
    const answers = Promise.allSettled([...(await admitTogether([1, 2])), ...(await admitTogether([3, 4, 5, 6]))]);
    await go(1);
    expect(asked.slice(2)).toEqual([[1], [2]]);
    await go();
    expect((await answers).map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      ...Array.from({ length: 4 }, () => "fulfilled"),
    ]);
  });
});
