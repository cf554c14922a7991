import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { parseEnv as parseWebEnv } from "../../remix-app/config/env.server.ts";
import { readEnvironment } from "../../supabase/functions/_gateway/environment.ts";
import { readServerSettings } from "../../supabase/functions/_server/settings.ts";
import { chartFolder, listKeys, readChartFile, readValues, valueAt } from "./chart-files.ts";

/** The oldest version that the chart allows. It is also the newest whose schemas kubectl-validate brings. */
const kubernetes = "1.30";
const crds = process.env.KUBERNETES_CRDS;

const isInstalled = (command: string) => spawnSync(command, ["--help"]).status === 0;
const hasHelm = isInstalled("helm");
const canValidate = hasHelm && isInstalled("kubectl-validate");
if (!hasHelm)
  console.warn("helm is not installed, so the chart was not rendered (go install helm.sh/helm/v3/cmd/helm).");
else if (!canValidate)
  console.warn(
    "kubectl-validate is not installed, so the chart's objects were not checked against Kubernetes' schemas " +
      "(go install sigs.k8s.io/kubectl-validate).",
  );
else if (!crds)
  console.warn(
    "KUBERNETES_CRDS names no folder, so the objects of Prometheus's operator and the Gateway API were not checked.",
  );

type Container = {
  image: string;
  env: { name: string; value?: string }[];
  securityContext: unknown;
  lifecycle?: { preStop: { sleep: { seconds: number } } };
  [name: string]: unknown;
};
type Pod = { containers: [Container]; terminationGracePeriodSeconds: number; [name: string]: unknown };
type Manifest = {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  /** The rendered text. Kubernetes reads it as YAML 1.1, so a copy without its quotes could differ. */
  text: string;
  // Each test reads the members of one kind.
  spec: { template: { spec: Pod }; jobTemplate: { spec: { template: { spec: Pod } } } } & Record<string, unknown>;
};

const files = { required: ["--values", "required-values.yaml"], full: ["--values", "full-values.yaml"] };
const alerts = ["--set-file", "monitoring.alerts=../../monitoring/alerts.yml"];

/** Renders the chart. @returns the objects, or helm's message if it refuses */
function render(...args: string[]): { manifests: Manifest[]; refusal: string } {
  const { status, stdout, stderr } = spawnSync(
    "helm",
    ["template", "gatehouse", chartFolder, "--namespace", "gatehouse", "--kube-version", kubernetes, ...args],
    { cwd: import.meta.dirname, encoding: "utf8" },
  );
  if (status !== 0) return { manifests: [], refusal: stderr };
  const texts = stdout.split(/^---\n/m).filter((text) => text.trim() !== "");
  return { manifests: texts.map((text) => ({ ...parse(text), text })), refusal: "" };
}

const listNames = (manifests: readonly Manifest[]) =>
  manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort();
const podOf = ({ kind, spec }: Manifest) => (kind === "CronJob" ? spec.jobTemplate.spec : spec).template.spec;
const findManifest = (manifests: readonly Manifest[], name: string) =>
  manifests.find(({ kind, metadata }) => `${kind} ${metadata.name}` === name) as Manifest;
const environmentOf = (manifest: Manifest) =>
  Object.fromEntries(podOf(manifest).containers[0].env.map(({ name, value }) => [name, value]));

const both = (kind: string, release = "gatehouse") => [`${kind} ${release}-gateway`, `${kind} ${release}-web`];
const always = ["Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"];
const isCustom = ({ apiVersion }: Manifest) => /monitoring\.coreos\.com|gateway\.networking/.test(apiVersion);

const defaults: unknown = parse(readChartFile("values.yaml"));

test("full-values.yaml has another value for every key", () => {
  const full = readValues("full-values.yaml");
  const same = listKeys(defaults).filter(
    (key) => JSON.stringify(valueAt(full, key) ?? valueAt(defaults, key)) === JSON.stringify(valueAt(defaults, key)),
  );
  // Without them, there would be nothing to render.
  expect(same).toEqual(["networkPolicy.enabled"]);
});

test("values.yaml leaves the keys of required-values.yaml empty", () => {
  for (const key of listKeys(readValues("required-values.yaml")))
    expect([key, valueAt(defaults, key)]).toEqual([key, key.endsWith("ingressFrom") ? [] : ""]);
});

if (hasHelm)
  describe("the chart", () => {
    test("renders both servers with the required values", () => {
      const { manifests, refusal } = render(...files.required);
      expect(refusal).toBe("");
      expect(listNames(manifests)).toEqual([...always, "HorizontalPodAutoscaler"].flatMap((kind) => both(kind)).sort());
    });

    test("renders every object with every value set", () => {
      const { manifests, refusal } = render(...files.full, ...alerts);
      expect(refusal).toBe("");
      const optional = ["HorizontalPodAutoscaler", "HTTPRoute", "ServiceMonitor"];
      expect(listNames(manifests)).toEqual(
        [
          ...[...always, ...optional].flatMap((kind) => both(kind, "platform")),
          ...["CronJob platform-schedule", "NetworkPolicy platform-schedule"],
          ...["Ingress platform", "PrometheusRule platform"],
        ].sort(),
      );
      expect(findManifest(manifests, "PrometheusRule platform").spec).toEqual(
        parse(readFileSync("monitoring/alerts.yml", "utf8")),
      );
    });

    test("gives both servers settings with which they start, next to those of their Secrets", () => {
      const { manifests } = render(...files.required);
      const web = environmentOf(findManifest(manifests, "Deployment gatehouse-web"));
      const gateway = environmentOf(findManifest(manifests, "Deployment gatehouse-gateway"));
      const secret = "s".repeat(32);
      expect(
        parseWebEnv({ ...web, SUPABASE_SECRET_KEY: "sb_secret_1", AUTH_RECOVERY_HASH_SECRET: secret }),
      ).toMatchObject({
        BASE_URL: "https://app.example.com",
        AI_URL: "https://abcdefghijklmnopqrst.supabase.co/functions",
        PORT: 3000,
        TRUSTED_PROXY_HOPS: 1,
      });
      const database = { GATEWAY_DB_URL: "postgres://gateway:secret@db.example.com:6543/postgres" };
      expect(readEnvironment({ ...gateway, ...database })).toMatchObject({
        trustedHops: 1,
        memoryLimitBytes: 512_000_000,
      });
      expect(readServerSettings(gateway)).toMatchObject({ port: 8080, drainMs: 300_000 });
    });

    test("lets no pod be root, write files, gain rights or use the cluster's API", () => {
      const pods = render(...files.full)
        .manifests.filter(({ kind }) => /^(Deployment|CronJob)$/.test(kind))
        .map(podOf);
      expect(pods).toHaveLength(3);
      for (const pod of pods) {
        expect(pod).toMatchObject({
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
        });
        expect(pod.containers[0].securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      }
    });

    test("gives a pod more time to end than its proxies and its calls take", () => {
      const { manifests } = render(...files.full);
      const pod = podOf(findManifest(manifests, "Deployment platform-gateway"));
      const { drainMs } = readServerSettings(environmentOf(findManifest(manifests, "Deployment platform-gateway")));
      const sleep = pod.containers[0].lifecycle?.preStop.sleep.seconds ?? 0;
      expect([sleep, drainMs]).toEqual([15, 3_600_000]);
      // After the calls, their settlements take up to five seconds.
      expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(sleep + drainMs / 1_000 + 5);
    });

    test("lets in only the ingress controller, Prometheus and the scheduled call, and out to no private network", () => {
      const { manifests } = render(...files.full);
      const labels = (component: string) => ({
        podSelector: { matchLabels: expect.objectContaining({ "app.kubernetes.io/component": component }) },
      });
      const { networkPolicy } = readValues("full-values.yaml") as {
        networkPolicy: Record<"ingressFrom" | "metricsFrom", unknown[]>;
      };
      const outside = [...networkPolicy.ingressFrom, ...networkPolicy.metricsFrom];
      const ingressOf = (component: string) =>
        findManifest(manifests, `NetworkPolicy platform-${component}`).spec.ingress;
      const ports = [{ port: "http" }];
      expect(ingressOf("web")).toEqual([{ from: [...outside, labels("schedule")], ports }]);
      expect(ingressOf("gateway")).toEqual([{ from: outside, ports }]);
      expect(ingressOf("schedule")).toBeUndefined();
      const rules = findManifest(render(...files.required).manifests, "NetworkPolicy gatehouse-gateway").spec.egress;
      expect(rules).toContainEqual({
        to: [
          { ipBlock: { cidr: "0.0.0.0/0", except: expect.arrayContaining(["10.0.0.0/8", "169.254.0.0/16"]) } },
          { ipBlock: { cidr: "::/0", except: ["fc00::/7", "fe80::/10"] } },
        ],
        ports: [{ port: 443 }, { port: 5432 }, { port: 6543 }],
      });
    });

    test("names an image by its digest, or else by its tag, or else by the release", () => {
      const imageOf = (...args: string[]) =>
        podOf(findManifest(render(...files.required, ...args).manifests, "Deployment gatehouse-web")).containers[0]
          .image;
      const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
      const digest = `sha256:${"1".repeat(64)}`;
      const name = "registry.example.com/gatehouse/gatehouse-web";
      expect(imageOf()).toBe(`${name}:${version}`);
      expect(imageOf("--set", "web.image.tag=1.2.3")).toBe(`${name}:1.2.3`);
      expect(imageOf("--set", `web.image.tag=1.2.3,web.image.digest=${digest}`)).toBe(`${name}@${digest}`);
    });

    test("shortens the names of a long release to what Kubernetes accepts", () => {
      const args = ["template", `long.${"n".repeat(48)}`, chartFolder, "--kube-version", kubernetes, ...files.required];
      const scheduled = [...args, "--set", "schedule.cronJob=true", "--show-only", "templates/schedule.yaml"];
      const { stdout } = spawnSync("helm", scheduled, { cwd: import.meta.dirname, encoding: "utf8" });
      expect(parse(stdout).metadata.name).toMatch(/^long-n{1,38}-schedule$/);
    });

    test("has a fixed number of pods where the maximum is the minimum, and no policies where they are off", () => {
      const fixed =
        "gateway.scaling.min=3,gateway.scaling.max=3,networkPolicy.enabled=false,networkPolicy.ingressFrom=null";
      const { manifests } = render(...files.required, "--set", fixed);
      const names = listNames(manifests);
      expect(names.filter((name) => /^(HorizontalPod|Network)/.test(name))).toEqual([
        "HorizontalPodAutoscaler gatehouse-web",
      ]);
      expect(findManifest(manifests, "Deployment gatehouse-gateway").spec).toMatchObject({ replicas: 3 });
      expect(findManifest(manifests, "Deployment gatehouse-web").spec).not.toHaveProperty("replicas");
    });

    test("scrapes under the names of jobs that the example of Prometheus's settings has", () => {
      const monitors = render(...files.full).manifests.filter(({ kind }) => kind === "ServiceMonitor");
      const jobs = [...JSON.stringify(monitors).matchAll(/"path":"([^"]+)".*?"replacement":"([^"]+)"/g)].map(
        ([, place, job]) => [job, place],
      );
      const { scrape_configs: examples } = parse(readFileSync("monitoring/prometheus.yml", "utf8")) as {
        scrape_configs: { job_name: string; metrics_path?: string }[];
      };
      expect(jobs.sort()).toEqual(examples.map((each) => [each.job_name, each.metrics_path ?? "/metrics"]).sort());
    });

    test.for([
      ["baseUrl=", "/baseUrl"],
      ["baseUrl=app.example.com", "/baseUrl"],
      ["aiUrl=https://ai.example.com/functions/v1", "aiUrl ends before /v1"],
      ["images.registry=https://registry.example.com", "/images/registry"],
      ["web.secretName=", "/web/secretName"],
      ["web.replicas=2", "additional properties 'replicas' not allowed"],
      ["fullnameOverride=1st", "/fullnameOverride"],
      ["surprise=1", "additional properties 'surprise' not allowed"],
      ["web.scaling.min=two", "/web/scaling/min"],
      ["web.scaling.min=0", "/web/scaling/min"],
      ["web.scaling.max=1", "web.scaling.max is below min"],
      ["gateway.memoryMb=128", "/gateway/memoryMb"],
      ["gateway.resources.limits.memory=1Gi", "/gateway/resources/limits"],
      ["gateway.image.digest=latest", "/gateway/image/digest"],
      ["gateway.drainSeconds=14401", "/gateway/drainSeconds"],
      ["networkPolicy.ingressFrom=null", "Set networkPolicy.ingressFrom"],
      ["httpRoute.enabled=true", "/httpRoute/parentRefs"],
      ["web.env[0].name=lower", "/web/env/0/name"],
      ["gateway.env[0].name=AI_DRAIN_SECONDS", "/gateway/env/0/name"],
    ] as const)("refuses %s", ([value, reason]) => {
      expect(render(...files.required, "--set", value).refusal).toContain(reason);
    });
  });

/** Checks objects against the schemas of Kubernetes and of `KUBERNETES_CRDS`. @returns the messages, if any is invalid */
function findSchemaFaults(texts: readonly string[]): string {
  const folder = mkdtempSync(path.join(tmpdir(), "gatehouse-chart-"));
  try {
    const file = path.join(folder, "manifests.yaml");
    writeFileSync(file, texts.join("---\n"));
    const { status, stdout, stderr } = spawnSync(
      "kubectl-validate",
      [file, "--version", kubernetes, ...(crds ? ["--local-crds", crds] : [])],
      { encoding: "utf8" },
    );
    return status === 0 ? "" : stdout + stderr;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (canValidate)
  describe("the schemas of Kubernetes", () => {
    test.for([
      ["the required values", [...files.required]],
      ["every value set", [...files.full, ...alerts]],
    ] as const)("accept the chart with %s", ([, args]) => {
      const { manifests } = render(...args);
      const checked = manifests.filter((manifest) => crds || !isCustom(manifest));
      expect(findSchemaFaults(checked.map(({ text }) => text))).toBe("");
    });

    if (crds)
      test.for([
        ["ServiceMonitor platform-web", "endpoints:", "endpoint:", "endpoint"],
        ["HTTPRoute platform-web", "port: 80", "port: 70000", "port"],
      ] as const)("refuse %s with a mistake in %s", ([name, original, mistake, reason]) => {
        const { text } = findManifest(render(...files.full).manifests, name);
        expect(text).toContain(original);
        expect(findSchemaFaults([text.replace(original, mistake)])).toContain(reason);
      });

    test.for([
      ["Deployment gatehouse-web", "containerPort: 3000", "containerPort: http", "containerPort"],
      ["Deployment gatehouse-gateway", "readinessProbe:", "readynessProbe:", "readynessProbe"],
      ["HorizontalPodAutoscaler gatehouse-web", "minReplicas: 2", "minReplicas: two", "minReplicas"],
      ["PodDisruptionBudget gatehouse-web", "selector:", "selectors:", "selectors"],
      ["NetworkPolicy gatehouse-web", "podSelector:", "podSelectors:", "podSelectors"],
    ] as const)("refuse %s with a mistake in %s", ([name, original, mistake, reason]) => {
      const { text } = findManifest(render(...files.required).manifests, name);
      expect(text).toContain(original);
      expect(findSchemaFaults([text.replace(original, mistake)])).toContain(reason);
    });
  });
