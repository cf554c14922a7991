import { describe, expect, test } from "vitest";
import { createIntrospectionCache } from "./introspection-cache.ts";
import type { Introspection } from "./platform-client.ts";

const farFuture = 4_000_000_000;
const active = (sid: string, sub = "ada", exp = farFuture): Introspection => ({
  active: true,
  sub,
  exp,
  sid,
  name: null,
  email: null,
});

function openCache({ seconds = 60, answer = async (token: string): Promise<Introspection> => active(token) } = {}) {
  const asked: string[] = [];
  const clock = { now: 1_000_000 };
  const platform = {
    introspect(token: string) {
      asked.push(token);
      return answer(token);
    },
  };
  return { asked, clock, cache: createIntrospectionCache(platform, { seconds, now: () => clock.now }) };
}

describe("the introspection cache", () => {
  test("answers from the cache for 60 seconds, then asks the platform again", async () => {
    const { asked, clock, cache } = openCache();
    await cache.read("a");
    clock.now += 59_999;
    await cache.read("a");
    expect(asked).toEqual(["a"]);
    clock.now += 1;
    await cache.read("a");
    expect(asked).toEqual(["a", "a"]);
  });

  test("makes one introspection call for concurrent requests", async () => {
    const { asked, cache } = openCache();
    await Promise.all(Array.from({ length: 20 }, () => cache.read("a")));
    expect(asked).toEqual(["a"]);
  });

  test("makes an introspection call for each request if the cache time is 0 seconds", async () => {
    const { asked, cache } = openCache({ seconds: 0 });
    await cache.read("a");
    await cache.read("a");
    expect(asked).toEqual(["a", "a"]);
  });

  test("does not cache failures, ended sessions, or any session past its expiry", async () => {
    const answers: Promise<Introspection>[] = [];
    const { asked, clock, cache } = openCache({ answer: () => answers.shift() as Promise<Introspection> });
    answers.push(Promise.reject(new Error("down")), Promise.resolve({ active: false }));
    await expect(cache.read("a")).rejects.toThrow("down");
    expect(await cache.read("a")).toEqual({ active: false });
    answers.push(Promise.resolve(active("s", "ada", 1_001)), Promise.resolve(active("s")));
    await cache.read("a");
    clock.now += 1_000;
    await cache.read("a");
    expect(asked).toHaveLength(4);
  });

  test("forgets one token, all sessions of a login, or all sessions of a person", async () => {
    const { asked, cache } = openCache();
    const readAll = async () => {
      asked.length = 0;
      for (const token of ["a", "b"]) await cache.read(token);
      return [...asked];
    };
    await readAll();
    cache.drop("a");
    expect(await readAll()).toEqual(["a"]);
    cache.dropLogin({ sid: "b", sub: "ada" });
    expect(await readAll()).toEqual(["b"]);
    cache.dropLogin({ sub: "ada" });
    expect(await readAll()).toEqual(["a", "b"]);
    cache.dropLogin({ sub: "grace" });
    expect(await readAll()).toEqual([]);
  });

  test("does not cache the answer to an introspection call if a logout arrives while the call is pending", async () => {
    const { asked, cache } = openCache();
    const reading = cache.read("a");
    cache.dropLogin({ sid: "other" });
    await reading;
    await cache.read("a");
    expect(asked).toEqual(["a", "a"]);
  });
});
