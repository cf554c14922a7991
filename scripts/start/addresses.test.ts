import { defaultPorts } from "@gatehousehq/local-stack/ports";
import { expect, test } from "vitest";
import { addressesOf } from "./addresses.ts";

const originsOf = (settings: Parameters<typeof addressesOf>[1]) => {
  const { base, notes } = addressesOf({ ...defaultPorts, web: 3000, notes: 3100 }, settings);
  return [base, notes];
};

test("platform and satellite have different hostnames, since browsers share cookies between ports", () => {
  expect(originsOf({})).toEqual(["http://localhost:3000", "http://127.0.0.1:3100"]);
  expect(originsOf({ BASE_URL: "http://127.0.0.1:3000" })).toEqual(["http://127.0.0.1:3000", "http://localhost:3100"]);
});

test("the satellite's hostname is a sibling of the platform's under a parent domain", () => {
  const settings = { BASE_URL: "http://web.gatehouse.localhost:9", PARENT_DOMAIN: "gatehouse.localhost" };
  expect(originsOf(settings)).toEqual(["http://web.gatehouse.localhost:3000", "http://notes.gatehouse.localhost:3100"]);
});
