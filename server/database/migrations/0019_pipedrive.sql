CREATE TABLE "crm_budgets" (
	"crm" text NOT NULL,
	"account_id" text NOT NULL,
	"day" date NOT NULL,
	"spent" integer NOT NULL,
	"most" integer,
	"remaining" integer,
	CONSTRAINT "crm_budgets_crm_account_id_pk" PRIMARY KEY("crm","account_id")
);
--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "late_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "searched_until" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "deal_events" ADD COLUMN "former" text;