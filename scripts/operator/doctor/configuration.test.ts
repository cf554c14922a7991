import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { readConfiguration } from "./configuration.ts";

const directory = mkdtempSync(path.join(tmpdir(), "doctor-configuration-"));
const file = path.join(directory, "production.env");
afterAll(() => rmSync(directory, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

test("if settings files are given, the doctor reads only the access token from the shell's environment", () => {
  writeFileSync(file, "SUPABASE_URL=https://abc.supabase.co\n");
  vi.stubEnv("SUPABASE_ACCESS_TOKEN", "sbp_shell");
  vi.stubEnv("SUPABASE_SECRET_KEY", "sb_secret_shell");
  expect(readConfiguration([file]).settings).toEqual({
    SUPABASE_URL: "https://abc.supabase.co",
    SUPABASE_ACCESS_TOKEN: "sbp_shell",
  });
});

test("the doctor prefers an access token in a settings file to one in the shell's environment", () => {
  writeFileSync(file, "SUPABASE_ACCESS_TOKEN=sbp_file\n");
  vi.stubEnv("SUPABASE_ACCESS_TOKEN", "sbp_shell");
  expect(readConfiguration([file]).settings).toEqual({ SUPABASE_ACCESS_TOKEN: "sbp_file" });
});
