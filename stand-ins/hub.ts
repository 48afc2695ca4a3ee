/** The only account of the stand-in HubSpot, and the person who is signed in to it. */
export const standInHub = {
  hubId: 4_200_001,
  userId: 7_700_001,
  domain: 'acme-stand-in.example',
  user: 'sam@acme-stand-in.example',
  appId: 1_000_001,
  currency: 'EUR',
}

export const standInOwners = [
  {
    id: '4001',
    type: 'PERSON',
    firstName: 'Alex',
    lastName: 'Rivera',
    email: 'alex.rivera@stand-in.example',
    userId: standInHub.userId,
    archived: false,
  },
  // An owner who left has no user, and is answered only to those who ask for archived owners.
  {
    id: '4002',
    type: 'PERSON',
    firstName: 'Robin',
    lastName: 'Chen',
    email: 'robin.chen@stand-in.example',
    archived: true,
  },
]

export const standInPipelines = [
  {
    id: 'default',
    label: 'Sales pipeline',
    stages: [
      stage('appointmentscheduled', 'Appointment scheduled', '0.2', 'false'),
      stage('qualifiedtobuy', 'Qualified to buy', '0.4', 'false'),
      stage('presentationscheduled', 'Presentation scheduled', '0.6', 'false'),
      stage('contractsent', 'Contract sent', '0.9', 'false'),
      stage('closedwon', 'Closed won', '1.0', 'true'),
      stage('closedlost', 'Closed lost', '0.0', 'true'),
    ],
  },
  // The ids of what people create are numbers. Only the metadata say which stage means won.
  {
    id: '81200001',
    label: 'Renewals',
    stages: [
      stage('1200101', 'Renewal due', '0.5', 'false'),
      stage('1200102', 'Not renewed', '0.0', 'true'),
      stage('1200103', 'Renewed', '1.0', 'true'),
    ],
  },
]

function stage(id: string, label: string, probability: string, isClosed: string) {
  return { id, label, metadata: { probability, isClosed } }
}
