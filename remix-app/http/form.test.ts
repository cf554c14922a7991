import { describe, expect, test } from "vitest";
import type { Claims } from "#shared/claims.ts";
import { readForm } from "./form.ts";

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
});
