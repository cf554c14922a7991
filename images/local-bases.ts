import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { StackError } from "@gatehousehq/local-stack/errors";
import { buildah, run } from "./buildah.ts";

/** The base images that are made on this machine, where no registry of images can be reached. */
export const localBases = { BUILD_BASE: "localhost/gatehouse-build-base", BASE: "localhost/gatehouse-base" };

/** The Debian release of both base images in the Containerfile. */
const suite = "bookworm";
/** The packages of `distroless/cc`, which the base replaces. */
const packages = ["base-files", "ca-certificates", "libc6", "libgcc-s1", "libssl3", "libstdc++6", "netbase", "tzdata"];

/**
 * Finishes a base whose packages were extracted without running their scripts, as distroless does: the certificates in
 * one file, the user of the Containerfile, and a file for each package.
 */
const finish = `set -e
for deb in "$1"/var/cache/apt/archives/*.deb; do
  mkdir -p "$1/var/lib/dpkg/status.d"
  dpkg-deb --field "$deb" > "$1/var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"
done
mkdir -p "$1/etc/ssl/certs" "$1/home/nonroot"
cat "$1"/usr/share/ca-certificates/mozilla/*.crt > "$1/etc/ssl/certs/ca-certificates.crt"
echo 'root:x:0:0:root:/root:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' > "$1/etc/passwd"
echo 'root:x:0:
nonroot:x:65532:' > "$1/etc/group"
rm -rf "$1"/usr/share/doc "$1"/usr/share/man`;

/**
 * Makes both base images from Debian's packages, and from the Node.js and npm that run this command. They are the same
 * as long as the packages are the same, so that layers on top of them are reused.
 */
export async function makeLocalBases(): Promise<void> {
  const npm = process.env.npm_execpath;
  if (!npm) throw new StackError("Run this command by npm, which becomes part of the image that builds.");
  const folder = await mkdtemp(path.join(tmpdir(), "gatehouse-bases-"));
  try {
    const [base, buildBase] = [path.join(folder, "base.tar"), path.join(folder, "build-base.tar")];
    await makeTree(base, ["--variant=extract", `--include=${packages.join(",")}`, `--extract-hook=${finish}`]);
    await commit(localBases.BASE, (container) => buildah("add", container, base, "/"));
    await makeTree(buildBase, ["--variant=minbase", "--include=ca-certificates,libstdc++6"]);
    await commit(localBases.BUILD_BASE, async (container) => {
      await buildah("add", container, buildBase, "/");
      await buildah("copy", container, process.execPath, "/usr/local/bin/node");
      await buildah("copy", container, path.resolve(path.dirname(npm), ".."), "/usr/local/lib/node_modules/npm");
      await buildah("run", "--isolation=chroot", container, "--", ...linkNpm);
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}

const linkNpm = ["ln", "-s", "../lib/node_modules/npm/bin/npm-cli.js", "/usr/local/bin/npm"];

async function makeTree(file: string, args: readonly string[]): Promise<void> {
  const env = { ...process.env, SOURCE_DATE_EPOCH: "0" };
  await run("mmdebstrap", ["--quiet", "--mode=root", ...args, suite, file], { env });
}

async function commit(image: string, fill: (container: string) => Promise<unknown>): Promise<void> {
  const container = await buildah("from", "scratch");
  try {
    await fill(container);
    await buildah("commit", "--quiet", "--omit-timestamp", container, image);
  } finally {
    await buildah("rm", container);
  }
}
