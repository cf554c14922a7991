import { existsSync } from "node:fs";
import path from "node:path";

/** Folders where Debian and others install servers, which are not on every PATH. */
const defaultFolders = ["/usr/sbin", "/usr/local/sbin"];

/** Finds a program on the PATH or in the usual folders of servers. */
export function findProgram(name: string, searchPath = process.env.PATH ?? ""): string | undefined {
  return [...searchPath.split(path.delimiter), ...defaultFolders]
    .filter((folder) => folder !== "")
    .map((folder) => path.join(folder, name))
    .find((file) => existsSync(file));
}
