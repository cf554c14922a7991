import { beforeEach, describe, expect, test } from "vitest";
import type { AttemptFailure } from "../../_shared/attempt.ts";
import { type Cooldowns, createCooldowns } from "./cooldowns.ts";

let clock = 0;
let cooldowns: Cooldowns;
beforeEach(() => {
  clock = 1_000_000;
  cooldowns = createCooldowns({ now: () => clock });
});

const state = (key = "a") => cooldowns.stateOf(key);
const fail = (
  failure: AttemptFailure = "server_error",
  changes: { startedAt?: number; retryAfterSeconds?: number; undecided?: boolean; waitedLong?: boolean } = {},
) => cooldowns.noteFailure("a", { failure, startedAt: clock, undecided: false, ...changes });
const failTimes = (times: number) => Array.from({ length: times }, () => fail());

describe("When a route is set aside", () => {
  test("sets a route aside for 30 s after three failures in a row, but not before", () => {
    expect([fail(), fail(), state()]).toEqual([0, 0, "open"]);
    expect([fail(), state()]).toEqual([30_000, "cooling"]);
    clock += 29_999;
    expect(state()).toBe("cooling");
    clock += 1;
    expect(state()).toBe("open");
  });

  test("a route that answers a call between its failures is not set aside", () => {
    failTimes(2);
    cooldowns.noteAnswer("a");
    failTimes(2);
    expect(state()).toBe("open");
  });

  test("counts timeouts like other failures, unless the route answered another call in the meantime", () => {
    cooldowns.noteAnswer("a");
    for (let n = 0; n < 5; n++) expect(fail("timeout", { startedAt: clock - 60_000 })).toBe(0);
    clock += 1;
    expect([fail("timeout"), fail("timeout"), state()]).toEqual([0, 0, "open"]);
    expect([fail("timeout"), state()]).toEqual([30_000, "hanging"]);
  });

  test("treats a route as hanging and sets it aside after three clients waited long and disconnected", () => {
    expect([fail("cancelled", { waitedLong: true }), fail("cancelled"), fail("cancelled")]).toEqual([0, 0, 0]);
    expect([fail("cancelled", { waitedLong: true }), state()]).toEqual([0, "open"]);
    expect([fail("cancelled", { waitedLong: true }), state()]).toEqual([30_000, "hanging"]);
  });

  test("clients that wait long and disconnect don't cause a cooldown if the route answered another call in the meantime", () => {
    cooldowns.noteAnswer("a");
    for (let n = 0; n < 5; n++) fail("cancelled", { waitedLong: true, startedAt: clock - 40_000 });
    expect(state()).toBe("open");
  });

  test("a timeout does not start a route's cooldown if the call had less than the usual time limit", () => {
    for (let n = 0; n < 5; n++) fail("timeout", { undecided: true });
    expect(state()).toBe("open");
  });

  test.for([
    [1, 1_000],
    [300, 300_000],
    [301, 300_000],
  ] as const)(
    "sets a route aside for the retry time that its answer states, up to 5 minutes: %i s",
    ([retryAfterSeconds, ms]) => {
      expect(fail("rate_limited", { retryAfterSeconds })).toBe(ms);
      clock += ms - 1;
      expect(state()).toBe("cooling");
      clock += 1;
      expect(state()).toBe("open");
    },
  );

  test.for(["invalid_request", "context_length_exceeded", "content_filter", "cancelled"] as const)(
    "a failure that the request itself caused never sets the route aside: %s",
    (failure) => {
      for (let n = 0; n < 10; n++) fail(failure);
      expect(state()).toBe("open");
    },
  );

  test("setting a route aside does not affect other routes", () => {
    failTimes(3);
    expect(state("b")).toBe("open");
  });
});

describe("After a route's cooldown", () => {
  beforeEach(() => {
    failTimes(3);
    clock += 30_000;
  });

  test("after a cooldown, one call probes the route while the others wait for the result", () => {
    expect([state(), state(), state()]).toEqual(["open", "cooling", "cooling"]);
    cooldowns.noteAnswer("a");
    expect([state(), state()]).toEqual(["open", "open"]);
  });

  test("a failed probe doubles the next cooldown, up to 5 minutes", () => {
    const lengths = Array.from({ length: 5 }, () => {
      state();
      const length = fail();
      clock += length;
      return length;
    });
    expect(lengths).toEqual([60_000, 120_000, 240_000, 300_000, 300_000]);
  });

  test("another call probes the route if the first probe's client left", () => {
    state();
    fail("cancelled");
    expect(state()).toBe("open");
  });

  test("another call probes the route if the first probe takes longer than a cooldown", () => {
    state();
    clock += 29_999;
    expect(state()).toBe("cooling");
    clock += 1;
    expect([state(), state()]).toEqual(["open", "cooling"]);
  });

  test("a call that began before the probe does not end the probe", () => {
    state();
    fail("server_error", { startedAt: clock - 31_000 });
    expect(state()).toBe("cooling");
  });

  test("an answer from a route resets the route's failure count", () => {
    state();
    cooldowns.noteAnswer("a");
    expect([...failTimes(2), state()]).toEqual([0, 0, "open"]);
    expect(fail()).toBe(30_000);
  });
});

test("calls that were already running do not extend a cooldown", () => {
  failTimes(3);
  clock += 20_000;
  expect(fail("server_error", { startedAt: clock - 25_000 })).toBe(0);
  clock += 10_000;
  expect(state()).toBe("open");
});
