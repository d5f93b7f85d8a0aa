package rendezvous

import (
	"errors"
	"strings"
	"testing"
)

// variables reads an environment that is written as words: "RANK=1 WORLD_SIZE=2".
func variables(text string) func(string) string {
	return func(name string) string {
		for word := range strings.FieldsSeq(text) {
			if n, value, _ := strings.Cut(word, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// What launchers set, as they set it.
const (
	master  = " MASTER_ADDR=gpu-1 MASTER_PORT=29500"
	torch   = "RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8 TORCHELASTIC_RUN_ID=none" + master
	openMPI = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2"
	hydra   = "PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2"
	slurm   = "SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=0"
	pod     = "JOB_COMPLETION_INDEX=2"
)

// TestFromEnvironment: which variables win.
func TestFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		name, env string
		want      World
	}{
		{"torchrun", torch, World{9, 16, 1, "gpu-1:29501", "torchrun"}},
		{"port", torch + " FERRY_NCCL_PORT=1234", World{9, 16, 1, "gpu-1:1234", "torchrun"}},
		{"port alone", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a FERRY_NCCL_PORT=65535", World{1, 2, 0, "a:65535", "torchrun"}},
		{"IPv6", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=2001:db8::1 MASTER_PORT=9", World{1, 2, 0, "[2001:db8::1]:10", "torchrun"}},
		{"IPv6 in brackets", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=[2001:db8::1] MASTER_PORT=9", World{1, 2, 0, "[2001:db8::1]:10", "torchrun"}},
		{"one machine", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2" + master, World{1, 2, 1, "127.0.0.1:29501", "torchrun"}},
		{"no local rank here", "RANK=3 WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=1", World{3, 4, 3, "localhost:2", "torchrun"}},
		{"no local rank elsewhere", "RANK=3 WORLD_SIZE=4" + master, World{3, 4, 0, "gpu-1:29501", "torchrun"}},
		{"one rank", "RANK=0 WORLD_SIZE=1", World{0, 1, 0, "", "torchrun"}},
		{"Open MPI", openMPI + master, World{3, 4, 1, "gpu-1:29501", "Open MPI"}},
		{"Open MPI on one machine", strings.ReplaceAll(openMPI, "SIZE=2", "SIZE=4") + " MASTER_PORT=1", World{3, 4, 1, "127.0.0.1:2", "Open MPI"}},
		{"MPICH", hydra + master, World{2, 4, 0, "gpu-1:29501", "MPICH or Intel MPI"}},
		{"PALS", "PMI_RANK=2 PMI_SIZE=4 PMI_LOCAL_RANK=2" + master, World{2, 4, 2, "gpu-1:29501", "MPICH or Intel MPI"}},
		{"Slurm", slurm + master, World{5, 8, 1, "gpu-1:29501", "Slurm"}},
		{"Kubernetes", pod + " WORLD_SIZE=4" + master, World{2, 4, 0, "gpu-1:29501", "Kubernetes"}},
		{"torchrun in a pod", torch + " " + pod, World{9, 16, 1, "gpu-1:29501", "torchrun"}},
		{"torchrun by srun, one for each machine", torch + " SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_ID=0", World{9, 16, 1, "gpu-1:29501", "torchrun"}},
		{"torchrun in a step of more tasks", torch + " SLURM_PROCID=1 SLURM_NTASKS=32 SLURM_STEP_ID=0", World{9, 16, 1, "gpu-1:29501", "torchrun"}},
		{"by hand in a batch script", "RANK=1 WORLD_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_ID=4294967291" + master, World{1, 2, 0, "gpu-1:29501", "torchrun"}},
		{"by hand in a shell of srun", "RANK=1 WORLD_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0" + master, World{1, 2, 0, "gpu-1:29501", "torchrun"}},
		{"RANK from Slurm", "RANK=5 WORLD_SIZE=8 " + slurm + master, World{5, 8, 1, "gpu-1:29501", "torchrun"}},
		{"mpirun in an allocation", openMPI + " SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0" + master, World{3, 4, 1, "gpu-1:29501", "Open MPI"}},
		{"mpiexec in an allocation", hydra + " SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0" + master, World{2, 4, 0, "gpu-1:29501", "MPICH or Intel MPI"}},
		{"RANK alone does not win", "RANK=7 " + slurm + master, World{5, 8, 1, "gpu-1:29501", "Slurm"}},
	} {
		w, err := FromEnvironment(variables(c.env))
		if err != nil || w != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, w, err, c.want)
		}
	}
}

// TestEnvironmentLacks: the error names the variable that is missing, or those that contradict.
func TestEnvironmentLacks(t *testing.T) {
	for env, want := range map[string]string{
		"RANK=1":                                 "RANK is \"1\", but WORLD_SIZE is not set",
		"WORLD_SIZE=2":                           "WORLD_SIZE is \"2\", but RANK is not set",
		"SLURM_PROCID=1 SLURM_STEP_ID=0":         "but SLURM_NTASKS is not set",
		"SLURM_PROCID=0 SLURM_NTASKS=8":          "SLURM_NTASKS is 8, but srun has not started this process: start the program by srun",
		pod:                                      "JOB_COMPLETION_INDEX is \"2\", but WORLD_SIZE is not set",
		"RANK=1 WORLD_SIZE=2":                    "this is rank 1 of 2 (RANK, WORLD_SIZE), but MASTER_ADDR is not set",
		openMPI:                                  "MASTER_ADDR is not set: set it to the machine of rank 0 by mpirun -x MASTER_ADDR=HOST",
		hydra:                                    "MASTER_ADDR is not set: set it to the machine of rank 0 by mpirun -genv MASTER_ADDR HOST",
		slurm:                                    "MASTER_ADDR is not set: set it before srun, by export MASTER_ADDR=$(scontrol",
		pod + " WORLD_SIZE=4":                    "MASTER_ADDR is not set: set it in the Job to the name of its pod 0",
		"RANK=1 WORLD_SIZE=2 MASTER_ADDR=a":      "MASTER_PORT is not set: set it or FERRY_NCCL_PORT",
		openMPI + " MASTER_ADDR=a":               "MASTER_PORT is not set",
		"RANK=x WORLD_SIZE=2":                    `RANK is "x", want a number from 0 to 65536`,
		"RANK=-1 WORLD_SIZE=2":                   `RANK is "-1"`,
		"RANK=0 WORLD_SIZE=0":                    `WORLD_SIZE is "0", want a number from 1`,
		"RANK=0 WORLD_SIZE=99999999999999999999": `WORLD_SIZE is "99999999999999999999"`,
		"RANK=\x1b[2J WORLD_SIZE=2":              `RANK is "\x1b[2J"`,
		"RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65535":          `MASTER_PORT is "65535", want a port from 1 to 65534`,
		"RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=http":           `MASTER_PORT is "http"`,
		"RANK=1 WORLD_SIZE=2 MASTER_ADDR=a FERRY_NCCL_PORT=0":          `FERRY_NCCL_PORT is "0"`,
		"RANK=1 WORLD_SIZE=2 LOCAL_RANK=y" + master:                    `LOCAL_RANK is "y"`,
		"RANK=2 WORLD_SIZE=2" + master:                                 "RANK is 2 and WORLD_SIZE is 2: a rank is less than the number of ranks; does WORLD_SIZE count machines?",
		"JOB_COMPLETION_INDEX=4 WORLD_SIZE=4" + master:                 "JOB_COMPLETION_INDEX is 4 and WORLD_SIZE is 4",
		"RANK=3 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2" + master: "the local rank is 2 and LOCAL_WORLD_SIZE is 2",
		"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8" + master: "LOCAL_WORLD_SIZE is 8 and WORLD_SIZE is 2: RANK and WORLD_SIZE seem to count machines",
		"RANK=1 WORLD_SIZE=2 LOCAL_RANK=5" + master:                    "the local rank is 5 and RANK is 1: a rank is not less than its local rank; RANK and WORLD_SIZE seem to count machines",
		"RANK=0 WORLD_SIZE=2 " + openMPI + master:                      "WORLD_SIZE is 2 and OMPI_COMM_WORLD_SIZE is 4: RANK and WORLD_SIZE seem to count machines, and must count processes; unset both",
		"RANK=0 WORLD_SIZE=2 " + hydra + master:                        "WORLD_SIZE is 2 and PMI_SIZE is 4",
		"RANK=1 WORLD_SIZE=2 " + slurm + master:                        "WORLD_SIZE is 2 and SLURM_NTASKS is 8",
		"RANK=0 WORLD_SIZE=8 " + slurm + master:                        "RANK is 0 and SLURM_PROCID is 5, of 8 ranks: was RANK set before the ranks were started?",
		"RANK=0 WORLD_SIZE=4 " + openMPI + master:                      "RANK is 0 and OMPI_COMM_WORLD_RANK is 3, of 4 ranks",
	} {
		if w, err := FromEnvironment(variables(env)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", env, w, err, want)
		}
	}
	for _, env := range []string{"MASTER_ADDR=a LOCAL_RANK=0", "SLURM_NTASKS=8", "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0", "SLURM_PROCID=0"} {
		if _, err := FromEnvironment(variables(env)); !errors.Is(err, ErrNoLauncher) {
			t.Errorf("%q, without a launcher: %v", env, err)
		}
	}
}
