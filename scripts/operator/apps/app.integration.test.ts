import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { asApp, createPerson, paths, service } from "../../test/apps.ts";

const run = promisify(execFile);

/** Runs `npm run gatehouse -- app …` and returns its output and exit code. */
async function app(line: string[], env: Partial<NodeJS.ProcessEnv> = {}) {
  const settings: NodeJS.ProcessEnv = {
    NODE_ENV: "production",
    PATH: process.env.PATH,
    GATEHOUSE_STACK: process.env.GATEHOUSE_STACK,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    ...env,
  };
  try {
    return { code: 0, ...(await run(process.execPath, ["scripts/operator/app.ts", ...line], { env: settings })) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}

const newName = () => `cli-${randomBytes(6).toString("hex")}`;
const secretIn = ({ stdout }: { stdout: string }) => /APP_SECRET=(\S+)/.exec(stdout)?.[1] ?? "";
const proves = async (name: string, secret: string) =>
  (await asApp({ name, secret }, paths.validate, { token: "none" })).status === 200;
const addition = (name: string, more: string[] = []) => [
  ...["add", name, "--display-name", "Command line", "--reason", "test"],
  ...["--origin", `https://${name}.example`, ...more],
];

describe("npm run gatehouse -- app", () => {
  test("registers an app, prints its secret once and lists the app without it", async () => {
    const name = newName();
    const added = await app(addition(name, ["--scope", "profile", "--scope", "workspaces:read"]));
    expect([added.code, added.stderr]).toEqual([0, ""]);
    const secret = secretIn(added);
    expect(await proves(name, secret)).toBe(true);
    expect(await proves(name, `${secret}_`)).toBe(false);
    const { stdout } = await app(["list"]);
    expect(stdout).toContain(
      `${name} (Command line): internal, enabled, https://${name}.example, profile workspaces:read\n`,
    );
    expect(stdout).not.toContain(secret);
  });

  test("rotates an app's secret and keeps the old secret valid only during the overlap", async () => {
    const name = newName();
    const secrets = [secretIn(await app(addition(name)))];
    const rotate = async (overlap: string) => {
      const rotated = await app(["rotate-secret", name, "--overlap", overlap, "--reason", "test"]);
      expect(rotated.code).toBe(0);
      secrets.push(secretIn(rotated));
    };
    const good = () => Promise.all(secrets.map((secret) => proves(name, secret)));
    await rotate("86400");
    expect(await good()).toEqual([true, true]);
    await rotate("0");
    expect(await good()).toEqual([false, false, true]);
  });

  test("disables and enables an app from the command line", async () => {
    const name = newName();
    const secret = secretIn(await app(addition(name)));
    expect((await app(["disable", name, "--reason", "test"])).stdout).toBe(`${name} is disabled.\n`);
    expect(await proves(name, secret)).toBe(false);
    expect((await app(["list"])).stdout).toContain(`${name} (Command line): internal, disabled`);
    expect((await app(["enable", name, "--reason", "test"])).stdout).toBe(`${name} is enabled.\n`);
    expect(await proves(name, secret)).toBe(true);
  });

  test("sets the resource URL of an internal app, and refuses it for another", async () => {
    const [name, other] = [newName(), newName()];
    const url = `https://${name}.example/mcp`;
    const added = await app(addition(name, ["--resource-url", url]));
    expect((await app(["show", name])).stdout).toContain(`resource URL: ${url}\n`);
    expect(secretIn(added)).not.toBe("");
    const taken = await app(addition(other, ["--resource-url", url]));
    expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining("registered already") });
    expect(secretIn(taken)).not.toBe("");
    await app(["change", name, "--resource-url", "none", "--reason", "test"]);
    expect((await app(["show", name])).stdout).not.toContain("resource URL");
  });

  test("links an external app to a workspace and refuses an unknown workspace", async () => {
    const name = newName();
    await app(addition(name, ["--kind", "external", "--scope", "ai:use"]));
    const person = await createPerson();
    const { data } = await service.from("workspaces").select("id").eq("personal_user_id", person.id).single();
    const link = (workspace: string, verb = "link") => app([verb, name, "--workspace", workspace, "--reason", "test"]);
    expect((await link(data?.id)).stdout).toBe(`${name} is linked.\n`);
    expect((await link(data?.id, "unlink")).stdout).toBe(`${name} is unlinked.\n`);
    expect(await link(crypto.randomUUID())).toMatchObject({ code: 1, stderr: expect.stringContaining("no such") });
    await service.auth.admin.deleteUser(person.id);
  });

  test("the app command explains each refusal and exits with 1", async () => {
    const name = newName();
    await app(addition(name));
    const unknown = newName();
    const refusals: [string[], string][] = [
      [addition(name), "registered already"],
      [addition(newName(), ["--origin", `https://${name}.example`]), "registered already"],
      [addition(newName(), ["--scope", "ai:use"]), "an internal app has no gateway scopes"],
      [addition("web"), "the platform's own"],
      [["rotate-secret", unknown, "--reason", "test"], `There is no app called ${unknown}`],
      [["disable", unknown, "--reason", "test"], `There is no app called ${unknown}`],
      [["rotate-secret", name, "--overlap", "86401", "--reason", "test"], "npm run gatehouse -- app list"],
      [["disable", name], "say why with --reason"],
      [["list", "--unknown"], "--unknown"],
      [[], "npm run gatehouse -- app list"],
    ];
    const answers = await Promise.all(refusals.map(([line]) => app(line)));
    for (const [index, answer] of answers.entries()) {
      expect(answer).toMatchObject({
        code: 1,
        stdout: "",
        stderr: expect.stringContaining(refusals[index]?.[1] ?? ""),
      });
      expect(answer.stderr).not.toMatch(/^\s+at /m);
    }
  });

  test("the app command says that a project is required, or that the project did not answer", async () => {
    const none = await app(["list"], { GATEHOUSE_STACK: "/nowhere/stack.json" });
    expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining("No project: start the local stack") });
    const project = { SUPABASE_URL: "http://127.0.0.1:9", SUPABASE_SECRET_KEY: "sb_secret_x" };
    const gone = await app(["list"], project);
    expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining("did not answer") });
    const local = [...addition(newName()), "--origin", "http://localhost:3100"];
    expect(await app(local, project)).toMatchObject({ code: 1, stderr: expect.stringContaining("development only") });
  });

  test("registers, shows, changes and disables an OpenID client, which cannot authenticate as a platform app", async () => {
    const name = newName();
    const client = ["--kind", "openid", "--redirect-uri", "https://charts.example/callback"];
    const added = await app(["add", name, "--display-name", "Charts", ...client, "--reason", "test"]);
    expect([added.code, added.stderr]).toEqual([0, ""]);
    const secret = /client_secret=(\S+)/.exec(added.stdout)?.[1] ?? "";
    expect(await proves(name, secret)).toBe(false);
    const changes = ["--logout-url", "https://charts.example/out", "--device-grant"];
    expect((await app(["change", name, ...changes, "--reason", "test"])).stdout).toBe(`${name} is changed.\n`);
    expect((await app(["show", name])).stdout).toBe(
      [
        `${name} (Charts)`,
        "  kind: openid",
        "  enabled: yes",
        "  scopes: profile",
        "  redirect URI: https://charts.example/callback",
        "  logout URL: https://charts.example/out",
        "  device grant: allowed",
        "  PKCE: required",
        "  ID token: identifies the account only",
        "  groups: none",
        "",
      ].join("\n"),
    );
    expect((await app(["disable", name, "--reason", "test"])).stdout).toBe(`${name} is disabled.\n`);
    expect((await app(["list"])).stdout).toContain(
      `${name} (Charts): openid, disabled, https://charts.example/callback`,
    );
    const scheme = ["change", name, "--redirect-uri", "com.example.app:/", "--reason", "test"];
    expect((await app(scheme)).stderr).toContain("for public clients only");
  });

  test("registers a public OpenID client without a secret and refuses to rotate one", async () => {
    const name = newName();
    const client = ["--kind", "openid", "--public", "--device-grant"];
    const added = await app(["add", name, "--display-name", "Terminal", ...client, "--reason", "test"]);
    expect(added.stdout).toContain("it has no secret");
    const rotated = await app(["rotate-secret", name, "--reason", "test"]);
    expect(rotated).toMatchObject({ code: 1, stderr: expect.stringContaining("a public client has no secret") });
  });

  test("sets an app's logout URL and changes nothing else", async () => {
    const name = newName();
    await app(addition(name, ["--logout-url", `https://${name}.example/out`]));
    expect((await app(["show", name])).stdout).toContain(`logout URL: https://${name}.example/out`);
    await app(["change", name, "--logout-url", "none", "--reason", "test"]);
    expect((await app(["show", name])).stdout).toContain("logout URL: none");
    const renamed = await app(["change", name, "--display-name", "Other", "--reason", "test"]);
    expect(renamed).toMatchObject({ code: 1, stderr: expect.stringContaining("not an OpenID client") });
  });
});
