import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { brandOf } from "./brand.ts";
import { parseEnv } from "./env.server.ts";

const whole = {
  NODE_ENV: "test",
  BASE_URL: "https://app.example.com",
  SUPABASE_URL: "https://ref.supabase.co",
  SUPABASE_PUBLISHABLE_KEY: "sb_publishable_x",
  SUPABASE_SECRET_KEY: "sb_secret_x",
};
const brand = (settings: Record<string, string>) => brandOf(parseEnv({ ...whole, ...settings }));
const svg = '<?xml version="1.0"?>\n<!-- Ours -->\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>';
const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
const maxMarkBytes = 200_000;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "gatehouse-brand-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function fileOf(name: string, content: string | Buffer): string {
  const file = path.join(folder, name);
  writeFileSync(file, content);
  return file;
}

test("the product is Gatehouse with its own mark and accent by default", () => {
  expect(brand({})).toEqual({ name: "Gatehouse", accent: "#035e63", ownAccent: false, mark: null, support: null });
  expect(brand({ BRAND_NAME: "", BRAND_ACCENT: "", BRAND_MARK: "" })).toEqual(brand({}));
});

test("settings replace the product's name and accent", () => {
  const settings = { BRAND_NAME: "Acme & Söhne", BRAND_ACCENT: "#1D4ED8" };
  expect(brand(settings)).toMatchObject({ name: "Acme & Söhne", accent: "#1d4ed8", ownAccent: true });
});

describe("BRAND_NAME", () => {
  test.each(["A", "x".repeat(40), "Müller’s ID 2.0", "東京"])("accepts the brand name %j", (BRAND_NAME) => {
    expect(brand({ BRAND_NAME }).name).toBe(BRAND_NAME);
  });

  test.each(["x".repeat(41), "<b>Acme</b>", "Acme: ID", "Acme\r\nBcc: b@example.com", "a@b", ".", "   "])(
    "refuses the brand name %j",
    (BRAND_NAME) => {
      expect(() => brand({ BRAND_NAME })).toThrow(
        "BRAND_NAME is not valid: must be 1 to 40 letters, digits, spaces or",
      );
    },
  );
});

describe("BRAND_ACCENT", () => {
  test.each(["teal", "#0b5", "0b5a63", "#0b5a6g", "#035e6300"])(
    "refuses the accent %s, which is not #rrggbb",
    (BRAND_ACCENT) => {
      expect(() => brand({ BRAND_ACCENT })).toThrow("BRAND_ACCENT is not valid: must be a colour such as #035e63.");
    },
  );

  test("refuses a colour that is hard to read, and suggests the nearest readable shade", () => {
    expect(() => brand({ BRAND_ACCENT: "#FFD400" })).toThrow(
      "BRAND_ACCENT is not valid: #ffd400 is too light: text has a contrast of 1.3:1 and needs 4.5:1. #826b04 works.",
    );
    expect(brand({ BRAND_ACCENT: "#826b04" }).accent).toBe("#826b04");
  });
});

describe("SUPPORT_ADDRESS", () => {
  test.each([
    ["help@example.com", "mailto:help@example.com"],
    ["mailto:help+urgent@example.com", "mailto:help+urgent@example.com"],
    ["https://example.com/help?from=app", "https://example.com/help?from=app"],
  ])("accepts %s", (SUPPORT_ADDRESS, support) => {
    expect(brand({ SUPPORT_ADDRESS }).support).toBe(support);
  });

  test.each([
    "help",
    "help@example.com?bcc=a@example.com",
    "http://example.com/help",
    "javascript:alert(1)",
    "https://example.com/{{.Token}}",
    'https://example.com/"',
    "a@example.com b@example.com",
  ])("refuses %j", (SUPPORT_ADDRESS) => {
    expect(() => brand({ SUPPORT_ADDRESS })).toThrow(
      "SUPPORT_ADDRESS is not valid: must be an email address or an https:// URL.",
    );
  });
});

describe("the BRAND_MARK setting", () => {
  test("accepts a brand mark file, and detects its type from its content", () => {
    const file = fileOf("mark.bin", svg);
    expect(brand({ BRAND_MARK: file }).mark).toEqual({ type: "image/svg+xml", bytes: Buffer.from(svg) });
    expect(brand({ BRAND_MARK: fileOf("mark.svg", png) }).mark).toMatchObject({ type: "image/png" });
  });

  test("accepts a brand mark by its URL on our own origin", () => {
    const url = "https://app.example.com/logo.png";
    expect(brand({ BRAND_MARK: url }).mark).toEqual({ type: "image/png", url });
  });

  test.each([
    ["https://cdn.example.com/logo.svg", "must be a file, or a URL on the origin of BASE_URL"],
    ["http://app.example.com/logo.svg", "must be a file, or a URL on the origin of BASE_URL"],
    ["https://app.example.com/logo.webp", "must end in .svg or .png"],
    ["/nowhere/logo.svg", "names /nowhere/logo.svg, which cannot be read (ENOENT)"],
  ])("refuses the brand mark %s", (BRAND_MARK, message) => {
    expect(() => brand({ BRAND_MARK })).toThrow(`BRAND_MARK is not valid: ${message}`);
  });

  test("refuses a brand mark that is neither SVG nor PNG, even with a valid file extension", () => {
    for (const content of ["<html><svg></svg></html>", "GIF89a", ""]) {
      expect(() => brand({ BRAND_MARK: fileOf("fake.svg", content) })).toThrow("must be an SVG or a PNG file");
    }
  });

  test("a brand mark may have at most 200 kB", () => {
    const sized = (bytes: number) => Buffer.concat([png], bytes);
    expect(brand({ BRAND_MARK: fileOf("most.png", sized(maxMarkBytes)) }).mark).not.toBeNull();
    expect(() => brand({ BRAND_MARK: fileOf("more.png", sized(maxMarkBytes + 1)) })).toThrow("more than 200 kB");
  });
});
