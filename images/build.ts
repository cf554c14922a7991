import { execFileSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { StackError } from "@gatehousehq/local-stack/errors";
import { containerfile, readBases } from "./bases.ts";
import { buildah, hasBuildah, run } from "./buildah.ts";
import { localBases, makeLocalBases } from "./local-bases.ts";
import { readSbom } from "./sbom.ts";

const root = path.resolve(import.meta.dirname, "..");
/** The images, and the program that runs each. */
const runtimes = { web: "node", gateway: "deno" } as const;
export type ImageName = keyof typeof runtimes;
export type Image = { name: ImageName; reference: string; sizeBytes: number; sbom: string };

const authorities = "/etc/ssl/certs/ca-certificates.crt";

/**
 * Builds both images from this checkout into Buildah's storage, and writes a list of each one's contents to
 * `build/images/`.
 * @throws StackError if Buildah is not installed, or a build fails
 */
export async function buildImages(version: string): Promise<Image[]> {
  if (!(await hasBuildah())) throw new StackError("Images need Buildah: install the package buildah.");
  const bases = await findBases();
  const images: Image[] = [];
  for (const name of Object.keys(runtimes) as ImageName[]) {
    const reference = `localhost/gatehouse-${name}:${version}`;
    await run("buildah", buildArguments({ name, reference, version, bases }), { echo: true });
    images.push({ name, reference, ...(await describeImage(name, { reference, version })) });
  }
  return images;
}

type Bases = Record<string, string>;

/** Returns the base images to use instead of the Containerfile's: none if those can be pulled. */
async function findBases(): Promise<Bases> {
  const named = readBases(await readFile(containerfile, "utf8"));
  try {
    for (const { reference, digest } of named)
      await buildah("pull", "--quiet", digest ? `${reference}@${digest}` : reference);
    return {};
  } catch {
    const names = named.map(({ reference }) => reference).join(" and ");
    console.error(`${names} can't be pulled. Using bases made of Debian's packages, which are for tests only.`);
    await makeLocalBases();
    return localBases;
  }
}

function buildArguments({
  name,
  reference,
  version,
  bases,
}: {
  name: ImageName;
  reference: string;
  version: string;
  bases: Bases;
}): string[] {
  const revision = execFileSync("git", ["rev-parse", "HEAD"], { cwd: root, encoding: "utf8" }).trim();
  const buildArgs = { ...bases, ...(process.env.NODE_EXTRA_CA_CERTS ? { NODE_EXTRA_CA_CERTS: authorities } : {}) };
  const volumes = process.env.NODE_EXTRA_CA_CERTS ? [`${process.env.NODE_EXTRA_CA_CERTS}:${authorities}:ro`] : [];
  return [
    ...["build", "--isolation=chroot", "--layers", "--format=docker", "--pull=never"],
    ...["--file", containerfile, "--target", name, "--tag", reference],
    ...Object.entries(buildArgs).flatMap(([argument, value]) => ["--build-arg", `${argument}=${value}`]),
    ...volumes.flatMap((volume) => ["--volume", volume]),
    ...["--label", `org.opencontainers.image.version=${version}`],
    ...["--label", `org.opencontainers.image.revision=${revision}`],
    root,
  ];
}

/** Reads an image's size, and writes the list of its contents. */
async function describeImage(
  name: ImageName,
  { reference, version }: { reference: string; version: string },
): Promise<{ sizeBytes: number; sbom: string }> {
  const container = await buildah("from", "--pull=never", reference);
  try {
    const mounted = await buildah("mount", container);
    const program = runtimes[name];
    const output = await buildah(
      "run",
      "--isolation=chroot",
      container,
      "--",
      `/usr/local/bin/${program}`,
      "--version",
    );
    const sbom = path.join(root, "build/images", `gatehouse-${name}-${version}.cdx.json`);
    await mkdir(path.dirname(sbom), { recursive: true });
    const bom = readSbom(mounted, { name: program, version: /\d+\.\d+\.\d+/.exec(output)?.[0] ?? "" });
    await writeFile(sbom, `${JSON.stringify(bom, null, 2)}\n`);
    const [kilobytes = ""] = (await run("du", ["--summarize", "--one-file-system", mounted])).split("\t");
    return { sizeBytes: Number(kilobytes) * 1_024, sbom };
  } finally {
    await buildah("rm", container);
  }
}
