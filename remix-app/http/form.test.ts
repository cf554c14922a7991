import { describe, expect, test } from "vitest";
import type { Claims } from "#shared/claims.ts";
import { readCrossOriginForm, readForm, requireFormAccount } from "./form.ts";

const post = (body: BodyInit, type?: string) =>
  new Request("https://app.example.com/login", {
    method: "POST",
    body,
    ...(type === undefined ? {} : { headers: { "content-type": type } }),
  });
const urlencoded = (body: string) => post(body, "application/x-www-form-urlencoded");
const context = {
  requestId: "r",
  origin: "https://app.example.com",
  isPage: (pathname: string) => pathname === "/login",
  session: { auth: { status: "anonymous" as const } },
};
const contextOf = (sub: string) => {
  const claims = { sub } as Claims;
  return {
    ...context,
    session: { auth: { status: "authenticated", via: "cookie", accessToken: "", claims } as const },
  };
};

async function refusal(request: Request): Promise<unknown> {
  return readForm(request, context).catch((thrown: Response) => thrown.json());
}

describe("reading a form", () => {
  test("reads URL-encoded and multipart forms", async () => {
    const body = new FormData();
    body.set("email", "a@b.example");
    for (const request of [post(body), urlencoded("email=a%40b.example")]) {
      expect((await readForm(request, context)).get("email")).toBe("a@b.example");
    }
  });

  test("accepts files only in forms of pages that allow them", async () => {
    const body = new FormData();
    body.set("prices", new Blob(["{}"]), "prices.json");
    const file = (await readForm(post(body), context, { files: true })).get("prices");
    expect(file instanceof File && file.name).toBe("prices.json");
    expect(await refusal(post(body))).toMatchObject({ code: "INVALID_REQUEST" });
  });

  test("a form may have at most 50 fields", async () => {
    const fields = (count: number) => Array.from({ length: count }, (_, index) => `f${index}=x`).join("&");
    expect([...(await readForm(urlencoded(fields(50)), context))]).toHaveLength(50);
    expect(await refusal(urlencoded(fields(51)))).toMatchObject({ status: 400, code: "INVALID_REQUEST" });
  });

  test("a form may have 64 KiB, or the number of bytes that its page sets", async () => {
    const form = (bytes: number) => urlencoded("a=".padEnd(bytes, "x"));
    const limits = { maxValueLength: 1_000_000 };
    expect((await readForm(form(65_536), context, limits)).get("a")).toHaveLength(65_534);
    await expect(readForm(form(65_537), context, limits)).rejects.toMatchObject({ status: 413 });
    expect([...(await readForm(form(70_000), context, { ...limits, maxBytes: 70_000 }))]).toHaveLength(1);
    await expect(readForm(form(70_001), context, { ...limits, maxBytes: 70_000 })).rejects.toMatchObject({
      status: 413,
    });
  });

  test("a form's field names may have at most 64 characters", async () => {
    expect([...(await readForm(urlencoded(`${"a".repeat(64)}=x`), context))]).toHaveLength(1);
    expect(await refusal(urlencoded(`${"a".repeat(65)}=x`))).toMatchObject({ status: 400 });
  });

  test.each([
    "email[99999999]=1",
    "email[]=1",
    "email.x=1",
    "a[9999999][9999999]=1",
    "__proto__=1",
    "__intent__=%7Bbad",
    "__intent__=null",
    "__state__=%7Bbad",
    "=1",
    "é=1",
    "email=1&email=2",
  ])("refuses a form with %s before any other code reads it", async (body) => {
    expect(await refusal(urlencoded(body))).toMatchObject({ status: 400, code: "INVALID_REQUEST" });
  });

  test("a form's values may have at most 8,192 characters", async () => {
    expect((await readForm(urlencoded(`email=${"a".repeat(8_192)}`), context)).get("email")).toHaveLength(8_192);
    expect(await refusal(urlencoded(`email=${"a".repeat(8_193)}`))).toMatchObject({ status: 400 });
  });

  test("a page can raise the maximum length of a form's values", async () => {
    const limit = { maxValueLength: 20_000 };
    const form = await readForm(urlencoded(`prompt=${"a".repeat(20_000)}`), context, limit);
    expect(form.get("prompt")).toHaveLength(20_000);
    await expect(readForm(urlencoded(`prompt=${"a".repeat(20_001)}`), context, limit)).rejects.toHaveProperty(
      "status",
      400,
    );
  });

  test("refuses a form with a value that is not text", async () => {
    expect(await refusal(urlencoded("password=a%00b"))).toMatchObject({ status: 400 });
    const body = new FormData();
    body.set("password", new Blob(["a"]), "a.txt");
    expect(await refusal(post(body))).toMatchObject({ status: 400 });
  });

  test("accepts a form from an account's page only while that account is active or no account is signed in", async () => {
    for (const reader of [contextOf("ada"), context]) {
      expect([...(await readForm(urlencoded("name=x&pageAccount=ada"), reader))]).toEqual([["name", "x"]]);
    }
    for (const named of ["ada", ""]) {
      const refused = await readForm(urlencoded(`name=x&pageAccount=${named}`), contextOf("bob")).catch(
        (thrown) => thrown,
      );
      expect(await refused.json()).toMatchObject({ status: 409, code: "CONFLICT", page: "/login" });
    }
    expect((await readForm(urlencoded("name=x"), contextOf("bob"))).get("name")).toBe("x");
  });

  test("refuses a form that can't be parsed or has another content type", async () => {
    expect(await refusal(post("--b\r\nnonsense", "multipart/form-data; boundary=b"))).toMatchObject({ status: 400 });
    expect(await refusal(post("{}", "application/json"))).toMatchObject({
      status: 415,
      code: "UNSUPPORTED_MEDIA_TYPE",
      detail: "Send the body as a form, with Content-Type: application/x-www-form-urlencoded.",
    });
  });

  test("a refusal of access reads a small form for the page's account, and never a large or chunked one", async () => {
    const body = "pageAccount=ada&name=".padEnd(65_537, "x");
    const sent = (length: string | null) => {
      const request = urlencoded(body);
      if (length !== null) request.headers.set("content-length", length);
      return request;
    };
    for (const request of [sent("65537"), sent(null)]) {
      await requireFormAccount(contextOf("bob"), request);
      expect(request.bodyUsed).toBe(false);
    }
    const small = urlencoded("pageAccount=ada");
    small.headers.set("content-length", "15");
    await expect(requireFormAccount(contextOf("bob"), small)).rejects.toMatchObject({ status: 409 });
  });
});

describe("reading a form of another site", () => {
  const read = async (request: Request) => [...(await readCrossOriginForm(request, context))];

  test("returns the fields of another site's form in order, with any names and repetitions", async () => {
    expect(await read(urlencoded("a.b=1&a.b=2&=3"))).toEqual([
      ["a.b", "1"],
      ["a.b", "2"],
      ["", "3"],
    ]);
  });

  test.each([
    ["51 fields", urlencoded(`${"a=1&".repeat(50)}a=1`)],
    [
      "a file",
      post(
        "--b\r\nContent-Disposition: form-data; name=a; filename=b\r\n\r\nx\r\n--b--",
        "multipart/form-data; boundary=b",
      ),
    ],
    ["a boundary that doesn't occur", post("--x--", "multipart/form-data; boundary=b")],
  ])("refuses another site's form with %s with 400", async (_, request) => {
    const refusal = await read(request).catch((thrown) => thrown);
    expect([refusal.status, await refusal.json()]).toEqual([
      400,
      expect.objectContaining({ detail: "The form couldn’t be read." }),
    ]);
  });

  test("returns no fields for another content type", async () => {
    expect(await read(post("{}", "application/json"))).toEqual([]);
  });

  test("refuses another site's form above 64 KiB with 413", async () => {
    await expect(read(urlencoded("a".repeat(65_537)))).rejects.toMatchObject({ status: 413 });
  });
});
