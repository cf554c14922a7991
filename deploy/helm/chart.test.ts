import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { readSections } from "../../scripts/docs/settings.ts";
import { createGatewayMetrics } from "../../supabase/functions/_gateway/telemetry/gateway-metrics.ts";
import { readServerSettings } from "../../supabase/functions/_server/settings.ts";
import { listKeys, readChartFile, readTemplates, valueAt } from "./chart-files.ts";

const templates = readTemplates();
const defaults: unknown = parse(readChartFile("values.yaml"));
const containerfile = readFileSync("images/Containerfile", "utf8");

/** Returns the text of a named template. */
const definitionOf = (name: string) =>
  templates.split(/^{{- define /m).find((text) => text.startsWith(`"gatehouse.${name}"`)) ?? "";

test("the chart has the product's version", () => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  expect(parse(readChartFile("Chart.yaml"))).toMatchObject({ version, appVersion: version });
});

describe("the chart's settings", () => {
  const sections = readSections(readFileSync("docs/settings.md", "utf8"));
  const namesIn = (headings: RegExp) =>
    sections.filter(({ heading }) => headings.test(heading)).flatMap(({ mentions }) => mentions);

  test.for([
    ["web", /^Web server/, 7],
    ["gateway", /^(Edge functions|The gateway's process)/, 8],
  ] as const)("of %s are settings of that server", ([component, headings, count]) => {
    const names = [...definitionOf(`env.${component}`).matchAll(/name: ([A-Z0-9_]+)/g)].map(([, name]) => name);
    expect(names).toHaveLength(count);
    const known = namesIn(headings);
    expect(names.filter((name) => !known.includes(name ?? ""))).toEqual([]);
    // A name that is set twice could get either value.
    const { definitions } = JSON.parse(readChartFile("values.schema.json"));
    const refused: string[] = definitions.envVar.items.properties.name.not.enum;
    expect(names.filter((name) => !refused.includes(name ?? ""))).toEqual([]);
  });

  test("from Secrets are settings of the servers", () => {
    const keys = [...templates.matchAll(/key: ([A-Z0-9_]+)/g)].map(([, key]) => key);
    expect(keys).toEqual(expect.arrayContaining(["METRICS_TOKEN", "SCHEDULE_SECRET"]));
    const known = sections.flatMap(({ names }) => names.map(({ name }) => name));
    expect(keys.filter((key) => !known.includes(key ?? ""))).toEqual([]);
  });

  test("are by default those of the images", () => {
    expect(definitionOf("port")).toContain('"web" 3000 "gateway" 8080');
    expect(containerfile).toMatch(/EXPOSE 8080[\s\S]*EXPOSE 3000/);
    expect(containerfile).toContain(`AI_MEMORY_LIMIT_MB=${valueAt(defaults, "gateway.memoryMb")} `);
    const flags = definitionOf("env.gateway").replace("{{ div $memoryMb 2 }}", "256");
    const [, inImage = "none"] = /DENO_V8_FLAGS=(\S+)/.exec(containerfile) ?? [];
    expect(flags).toContain(`DENO_V8_FLAGS, value: "${inImage}"`);
    expect(valueAt(defaults, "gateway.drainSeconds")).toBe(readServerSettings({}).drainMs / 1_000);
  });
});

test.for([
  ["/healthz", "remix-app/app.ts"],
  ["/healthz", "supabase/functions/_server/server.ts"],
  ["/readyz", "supabase/functions/_server/server.ts"],
  ["/metrics", "supabase/functions/_server/server.ts"],
  ["/metrics", "remix-app/app.ts"],
  ["/metrics/deployment", "remix-app/app.ts"],
])("the templates' path %s is one of %s", ([path, file]) => {
  expect(templates).toMatch(new RegExp(`[" ]${path}[", ]`));
  expect(readFileSync(file ?? "", "utf8")).toContain(`"${path}"`);
});

test("the autoscaler's metric counts a gateway's open streams", async () => {
  const [, metric = "", label = "", value = ""] =
    /type: Pods\n[\s\S]*?name: (\w+)\n\s+selector: \{ matchLabels: \{ (\w+): "(\w+)" \} \}/.exec(templates) ?? [];
  const metrics = createGatewayMetrics();
  metrics.runBegan({ stream: true });
  metrics.runBegan({ stream: true });
  metrics.runBegan({ stream: false });
  expect(await (await metrics.respond()).text()).toContain(`\n${metric}{${label}="${value}"} 2\n`);
  const { rules } = parse(readFileSync("monitoring/prometheus-adapter.yml", "utf8"));
  expect(rules.custom[0].seriesQuery).toMatch(new RegExp(`^${metric}{`));
});

describe("values.yaml", () => {
  type Schema = {
    properties?: Record<string, Schema>;
    additionalProperties?: unknown;
    $ref?: string;
    definitions?: Record<string, Schema>;
  };
  const schema = JSON.parse(readChartFile("values.schema.json")) as Schema;
  const resolve = (part: Schema) => schema.definitions?.[part.$ref?.split("/").at(-1) ?? ""] ?? part;

  /** Returns the paths that the schema names, and those objects that allow others. */
  function listSchema(part: Schema, prefix: string): { keys: string[]; open: string[] } {
    const { properties, additionalProperties } = resolve(part);
    // A map of names that the cluster knows, such as resources.
    if (!properties || typeof additionalProperties === "object") return { keys: [prefix], open: [] };
    const members = Object.entries(properties).map(([name, member]) =>
      listSchema(member, prefix === "" ? name : `${prefix}.${name}`),
    );
    return {
      keys: members.flatMap(({ keys }) => keys),
      open: [...(additionalProperties === false ? [] : [prefix]), ...members.flatMap(({ open }) => open)],
    };
  }

  test("has the keys of its schema, which allows no others", () => {
    const { keys, open } = listSchema(schema, "");
    expect(open).toEqual([]);
    const isDescribed = (key: string) => keys.some((each) => each === key || key.startsWith(`${each}.`));
    const isSet = (key: string) => valueAt(defaults, key) !== undefined;
    expect(listKeys(defaults).filter((key) => !isDescribed(key))).toEqual([]);
    // Kubernetes' own objects have more members than the defaults.
    expect(keys.filter((key) => !isSet(key) && !/\.resources\./.test(key))).toEqual([]);
  });

  test("has no key that no template uses", () => {
    const names = [
      ...new Set(listKeys(defaults).flatMap((key) => key.replace(/\.resources\..*/, ".resources").split("."))),
    ];
    expect(names.filter((name) => !new RegExp(`\\.${name}\\b|"${name}"`).test(templates))).toEqual([]);
  });
});

test.for([
  [200, 0],
  [503, 1],
] as const)("the scheduled call ends with its outcome after the answer %i", async ([status, code]) => {
  const [, indented = ""] =
    /- --eval\n\s+- \|\n([\s\S]*?)\n\s+- http:/.exec(readChartFile("templates/schedule.yaml")) ?? [];
  const server = createServer((request, response) => {
    const isExpected = request.method === "POST" && request.headers.authorization === "Bearer secret";
    response.writeHead(isExpected ? status : 418).end("outcome");
  }).listen(0, "127.0.0.1");
  try {
    await once(server, "listening");
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1/schedule`;
    const options = { env: { ...process.env, SCHEDULE_SECRET: "secret" } };
    const ended = await promisify(execFile)(process.execPath, ["--eval", indented, address], options).catch(
      (error) => error,
    );
    expect([ended.stdout, ended.code ?? 0]).toEqual([`${status} outcome\n`, code]);
  } finally {
    server.close();
  }
});
