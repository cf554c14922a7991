/**
 * `npm run generate`: writes the committed files that are generated: the OpenAPI documents, and with a name the next
 * migration.
 */
const usage = `npm run generate                       write the OpenAPI documents, and list what the next migration would change
npm run generate -- openapi            write the OpenAPI documents
npm run generate -- migration <name>   write the next migration from supabase/schemas
npm run generate -- migration --check  list what differs; exit code 1 where something does`;

const [what = "all", ...rest] = process.argv.slice(2);
switch (what) {
  case "all":
    await (await import("./openapi/files.ts")).writeOpenApiFiles();
    process.argv.push("--check");
    await import("./database/main.ts");
    break;
  case "openapi":
    await (await import("./openapi/files.ts")).writeOpenApiFiles();
    break;
  case "migration":
    process.argv.splice(2, process.argv.length, ...rest);
    await import("./database/main.ts");
    break;
  case "--help":
  case "-h":
    console.log(usage);
    break;
  default:
    console.error(`There is nothing to generate called ${what}.\n\n${usage}`);
    process.exitCode = 1;
}

export {};
