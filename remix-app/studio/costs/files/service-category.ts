/**
 * The allowed values of ServiceCategory in FOCUS 1.2.
 * https://focus.finops.org/focus-specification/v1-2/#servicecategory
 */
export const serviceCategories = [
  "AI and Machine Learning",
  "Analytics",
  "Business Applications",
  "Compute",
  "Databases",
  "Developer Tools",
  "Multicloud",
  "Identity",
  "Integration",
  "Internet of Things",
  "Management and Governance",
  "Media",
  "Migration",
  "Mobile",
  "Networking",
  "Security",
  "Storage",
  "Web",
  "Other",
] as const;
export type ServiceCategory = (typeof serviceCategories)[number];

/** Formats of clouds' own bills, which name services but no categories. */
const cloudFormats: ReadonlySet<string> = new Set([
  "aws-cur",
  "azure",
  "gcp-bigquery",
  "gcp-bigquery-json",
  "gcp-cost-table",
]);

/** The names of clouds' services, the first match counts. */
const cloudServices: readonly [name: RegExp, category: ServiceCategory][] = [
  [
    /bedrock|sagemaker|vertex|openai|anthropic|claude|gemini|cognitive|machine learning|foundry|\bai\b/i,
    "AI and Machine Learning",
  ],
  [/bigquery|athena|redshift|synapse|databricks|glue|dataflow|data factory|analytics/i, "Analytics"],
  [
    /\brds\b|relational database|dynamodb|aurora|database|sql|cosmos|spanner|firestore|bigtable|redis|elasticache/i,
    "Databases",
  ],
  [/simple storage service|\bs3\b|storage|elastic file system|backup|glacier/i, "Storage"],
  [
    /ec2|elastic compute|compute|lambda|fargate|container|kubernetes|virtual machines|cloud run|functions|app service/i,
    "Compute",
  ],
  [
    /virtual private cloud|\bvpc\b|virtual network|networking|load balanc|cloudfront|bandwidth|route 53|\bdns\b|vpn/i,
    "Networking",
  ],
  [/cloudwatch|cloudtrail|monitor|logging|config/i, "Management and Governance"],
  [/key management|\bkms\b|key vault|secret|guardduty|security|firewall|\bwaf\b/i, "Security"],
  [
    /queue service|notification service|event ?grid|eventbridge|service bus|pub\/sub|api gateway|api management/i,
    "Integration",
  ],
];

/** Returns the allowed category that a text names, regardless of case, or undefined. */
export function findServiceCategory(text: string | null): ServiceCategory | undefined {
  const name = text?.toLowerCase();
  return serviceCategories.find((category) => category.toLowerCase() === name);
}

/**
 * Returns the FOCUS category of a service: the one that its file states, or else one by the service's name for a
 * cloud's own bill. Services of other providers are models.
 * @param options.format the format of the file that named the service; null if no file did
 */
export function serviceCategoryOf(
  service: string | null,
  { stated, format }: { stated: string | null; format: string | null },
): ServiceCategory {
  const category = findServiceCategory(stated);
  if (category) return category;
  if (format === null || !cloudFormats.has(format)) return "AI and Machine Learning";
  return cloudServices.find(([name]) => name.test(service ?? ""))?.[1] ?? "Other";
}
