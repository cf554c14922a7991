import { setTimeout } from "node:timers/promises";
import type { AppLoadContext, ServerBuild } from "@remix-run/server-runtime";
import { beforeEach, describe, expect, test } from "vitest";
import { later } from "./late-data.ts";
import { createRouteHandlers } from "./route-handlers.ts";

const page = () => null;
let reading = Promise.withResolvers<string>();
const routes = {
  root: { id: "root", path: "", module: { default: page, loader: () => ({ theme: "dark" }) } },
  still: {
    id: "still",
    parentId: "root",
    path: "still",
    module: { default: page, loader: () => ({ runs: 7 }), handle: { hydrate: false } },
  },
  within: { id: "within", parentId: "still", path: "within", module: { default: page, loader: () => ({ steps: 8 }) } },
  late: {
    id: "late",
    parentId: "root",
    path: "late",
    module: { default: page, loader: () => ({ runs: later(reading.promise) }), handle: { hydrate: false } },
  },
  live: { id: "live", parentId: "root", path: "live", module: { default: page, loader: () => ({ runs: 9 }) } },
};
/** Answers with what its scripts would begin with, and then with what its page sees. */
const build = {
  routes,
  assets: { routes, version: "1" },
  basename: "/",
  future: { v3_singleFetch: true },
  entry: {
    module: {
      default: async (
        _: Request,
        __: number,
        headers: Headers,
        { serverHandoffStream }: { serverHandoffStream: null },
      ) => new Response(serverHandoffStream, { headers }),
    },
  },
} as unknown as ServerBuild;
const context = { opened: Promise.resolve() } as AppLoadContext;

function encoded(path: string, documents: boolean): Promise<string> {
  const handlers = createRouteHandlers(build, { mode: "production", documents });
  const request = new Request(`http://localhost/${path}`);
  return handlers(path.split("/").at(-1) ?? "")(request, context).then((answer) => answer.text());
}

describe("what is encoded for the scripts of a document", () => {
  test("is nothing of a page that has none, nor of those around it", async () => {
    expect(await encoded("still", true)).not.toMatch(/theme|dark|runs/);
    expect(await encoded("still/within", true)).not.toMatch(/theme|dark|runs|steps/);
  });

  test("is all of one that has some", async () => {
    const text = await encoded("live", true);
    for (const told of ["theme", "dark", "runs", "9"]) expect(text).toContain(told);
  });

  test("is all of either where a script asks", async () => {
    for (const told of ["theme", "dark", "runs", "7"]) expect(await encoded("still", false)).toContain(told);
  });
});

describe("what a loader left for later", () => {
  beforeEach(() => {
    reading = Promise.withResolvers();
  });

  test("is waited for by the page of a document", async () => {
    expect(await encoded("late", true)).not.toContain("runs");
    reading.resolve("ten");
  });

  test("is there where a script asks", async () => {
    let answered = false;
    const answer = encoded("late", false).finally(() => {
      answered = true;
    });
    await setTimeout(20);
    expect(answered).toBe(false);
    reading.resolve("ten");
    expect(await answer).toContain("ten");
  });
});
