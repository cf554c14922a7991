import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { backendMailLifetime, backendMailSeconds } from "./backend-mail-lifetime.ts";

test("pages and emails state the lifetime of mailed codes that the backend is set to", async () => {
  const config = await readFile("supabase/config.toml", "utf8");
  expect(config).toMatch(new RegExp(`^otp_expiry = ${backendMailSeconds}$`, "m"));
  expect(backendMailLifetime).toBe("1 hour");
});
