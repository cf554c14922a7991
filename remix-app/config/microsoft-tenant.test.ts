import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isTenantAddress, microsoftTenant, tenantIssuer } from "./oauth-providers.ts";

const id = "8a1f7f0e-0d5b-4d6c-9a40-2b6c7d8e9f01";
const MICROSOFT_LOGIN_URL = "https://login.microsoftonline.com";
const pinned = { MICROSOFT_TENANT: id, MICROSOFT_LOGIN_URL };

describe("the pinned Microsoft tenant", () => {
  test.each([id, id.toUpperCase(), "contoso.com", "contoso.onmicrosoft.com", " contoso.com "])(
    "the Microsoft tenant can be pinned to %s",
    (tenant) => {
      expect(microsoftTenant.parse(tenant)).toBe(tenant.trim().toLowerCase());
    },
  );

  test.each([
    "common",
    "Common",
    "organizations",
    "consumers",
    "9188040d-6c67-4c5b-b112-36a304b66dad",
    "9188040D-6C67-4C5B-B112-36A304B66DAD",
    "contoso",
    "contoso.com/../common",
    "https://login.microsoftonline.com/common",
    ".com",
    `${id}0`,
  ])("the Microsoft tenant cannot be pinned to %s", (tenant) => {
    expect(microsoftTenant.safeParse(tenant).success).toBe(false);
  });
});

describe("the tenant that a Microsoft URL belongs to", () => {
  test.each([
    [`${MICROSOFT_LOGIN_URL}/${id}/oauth2/v2.0/authorize?client_id=x`, true],
    [`${MICROSOFT_LOGIN_URL}/${id.toUpperCase()}/oauth2/v2.0/authorize`, true],
    [`${MICROSOFT_LOGIN_URL}/common/oauth2/v2.0/authorize`, false],
    [`${MICROSOFT_LOGIN_URL}/organizations/oauth2/v2.0/authorize`, false],
    [`${MICROSOFT_LOGIN_URL}/${id}x/oauth2/v2.0/authorize`, false],
    [`${MICROSOFT_LOGIN_URL}/common/${id}/authorize`, false],
    [`${MICROSOFT_LOGIN_URL}/`, false],
    [`https://login.microsoftonline.com.evil.example/${id}/authorize`, false],
    [`https://evil.example/${id}/authorize`, false],
  ])("URL %s belongs to the pinned tenant: %s", async (url, ours) => {
    expect(await isTenantAddress(url, pinned)).toBe(ours);
  });

  test("without a configured Microsoft tenant, no Microsoft URL counts as a tenant URL", async () => {
    expect(await isTenantAddress(`${MICROSOFT_LOGIN_URL}/${id}/`, { MICROSOFT_LOGIN_URL })).toBe(false);
    expect(await tenantIssuer({ MICROSOFT_LOGIN_URL })).toBeNull();
  });
});

describe("a Microsoft tenant named by its domain", () => {
  let server: Server;
  let loginUrl: string;
  let issuerOf: (tenant: string) => unknown;
  const asked: string[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      const [, tenant = ""] = /^\/([^/]+)\/v2\.0\/\.well-known\/openid-configuration$/.exec(request.url ?? "") ?? [];
      asked.push(tenant);
      response.end(JSON.stringify({ issuer: issuerOf(tenant) }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    loginUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    issuerOf = () => `${loginUrl}/${id}/v2.0`;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const by = (tenant: string) => ({ MICROSOFT_TENANT: tenant, MICROSOFT_LOGIN_URL: loginUrl });

  test("a tenant named by its domain is looked up once, and has the issuer that Microsoft returns", async () => {
    for (const _ of [1, 2, 3]) expect(await tenantIssuer(by("contoso.example"))).toBe(`${loginUrl}/${id}/v2.0`);
    expect(asked.filter((tenant) => tenant === "contoso.example")).toHaveLength(1);
    expect(await isTenantAddress(`${loginUrl}/${id}/oauth2/v2.0/authorize`, by("contoso.example"))).toBe(true);
    expect(await isTenantAddress(`${loginUrl}/contoso.example/oauth2/v2.0/authorize`, by("contoso.example"))).toBe(
      true,
    );
    expect(await isTenantAddress(`${loginUrl}/common/oauth2/v2.0/authorize`, by("contoso.example"))).toBe(false);
  });

  test.each<[string, () => unknown]>([
    ["a shared issuer", () => `${loginUrl}/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0`],
    ["an issuer without an id", () => `${loginUrl}/{tenantid}/v2.0`],
    ["an issuer of another service", () => `https://evil.example/${id}/v2.0`],
    ["no issuer", () => undefined],
  ])("a tenant named by its domain has no issuer if Microsoft returns %s", async (name, given) => {
    issuerOf = given;
    expect(await tenantIssuer(by(`${name.replaceAll(" ", "-")}.example`))).toBeNull();
  });

  test("a tenant named by its domain has no issuer until Microsoft answers", async () => {
    const later = by("later.example");
    issuerOf = () => {
      throw new Error("never called");
    };
    expect(await tenantIssuer({ ...later, MICROSOFT_LOGIN_URL: "http://127.0.0.1:9" })).toBeNull();
    issuerOf = () => `${loginUrl}/${id}/v2.0`;
    expect(await tenantIssuer(later)).toBe(`${loginUrl}/${id}/v2.0`);
  });
});
