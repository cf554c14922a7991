import { copyFileSync, existsSync } from "node:fs";

// npm packs the LICENSE of a package's own folder. The owner of the project adds the repository's.
const source = new URL("../LICENSE", import.meta.url);
if (existsSync(source)) copyFileSync(source, "LICENSE");
