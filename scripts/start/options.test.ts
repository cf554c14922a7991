import { defaultPorts } from "@gatehousehq/local-stack/ports";
import { expect, test } from "vitest";
import { addressesOf, wishedWebPort } from "./addresses.ts";
import { readOptions } from "./options.ts";
import { statusSettings } from "./supabase-status.ts";

test("without options, the stack uses the default ports and the directory .local", () => {
  expect(readOptions([])).toMatchObject({ ports: defaultPorts, dataDir: ".local", json: false, dev: false });
});

test("seeds models that fail on purpose only with --test-models", () => {
  expect(readOptions([]).testModels).toBe(false);
  expect(readOptions(["--test-models"]).testModels).toBe(true);
});

test("--port-offset shifts all ports together, and --ports auto chooses free ones", () => {
  expect(readOptions(["--port-offset", "100"]).ports.web).toBe(3100);
  expect(Object.values(readOptions(["--ports", "auto"]).ports).every((port) => port === 0)).toBe(true);
});

test.each([
  [["--port", "1"], "--port"],
  [["--ports", "some"], "auto"],
  [["--port-offset", "many"], "--port-offset"],
  [["--database-via", "0"], "--database-via"],
  [["--database-via", "65536"], "--database-via"],
  [["--without", "web,databse"], "databse"],
  [["--supabase"], "--dev"],
  [["--scale", "--dev"], "--scale"],
  [["extra"], "extra"],
])("npm start refuses the options %j with a message", (args, named) => {
  expect(() => readOptions(args)).toThrow(named);
});

test("a BASE_URL on this machine gets the web server's actual port, and any other BASE_URL is unchanged", () => {
  const ports = { ...defaultPorts, web: 3456 };
  expect(addressesOf(ports, {}).base).toBe("http://localhost:3456");
  expect(addressesOf(ports, { BASE_URL: "http://web.gatehouse.localhost:3000/" }).base).toBe(
    "http://web.gatehouse.localhost:3456",
  );
  expect(addressesOf(ports, { BASE_URL: "https://example.com" }).base).toBe("https://example.com");
  expect(wishedWebPort({ BASE_URL: "http://localhost:4000" })).toBe(4000);
  expect(wishedWebPort({ BASE_URL: "https://example.com:4000" })).toBeUndefined();
});

test("turns the output of supabase status into settings", () => {
  const status = 'API_URL="http://127.0.0.1:54321"\nDB_URL="postgresql://postgres:p@127.0.0.1:54322/postgres"\n';
  expect(
    statusSettings(`${status}PUBLISHABLE_KEY="sb_publishable_a"\nSECRET_KEY="sb_secret_a"\nANON_KEY="jwt"\n`),
  ).toEqual({
    SUPABASE_URL: "http://127.0.0.1:54321",
    SUPABASE_PUBLISHABLE_KEY: "sb_publishable_a",
    SUPABASE_SECRET_KEY: "sb_secret_a",
    SUPABASE_DB_URL: "postgresql://postgres:p@127.0.0.1:54322/postgres",
  });
  expect(() => statusSettings(status)).toThrow("SUPABASE_PUBLISHABLE_KEY");
});
