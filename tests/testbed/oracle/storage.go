package oracle

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
)

// Storage is the storage that pods can mount, with the known facts about drivers.
type Storage struct {
	Claims      []*v1.PersistentVolumeClaim     `json:"claims"`
	Volumes     []*v1.PersistentVolume          `json:"volumes"`
	Classes     []*storagev1.StorageClass       `json:"classes"`
	CSINodes    []*storagev1.CSINode            `json:"csiNodes"`
	Drivers     []*storagev1.CSIDriver          `json:"drivers"`
	Capacities  []*storagev1.CSIStorageCapacity `json:"capacities"`
	Attachments []*storagev1.VolumeAttachment   `json:"attachments"`
}

// setStorage puts this in the place of all that was known.
func (s *scheduler) setStorage(storage *Storage) error {
	core, of := s.informers.Core().V1(), s.informers.Storage().V1()
	steps := []func() error{
		func() error { return replace(core.PersistentVolumeClaims().Informer(), storage.Claims) },
		func() error { return replace(core.PersistentVolumes().Informer(), storage.Volumes) },
		func() error { return replace(of.StorageClasses().Informer(), storage.Classes) },
		func() error { return replace(of.CSINodes().Informer(), storage.CSINodes) },
		func() error { return replace(of.CSIDrivers().Informer(), storage.Drivers) },
		func() error { return replace(of.CSIStorageCapacities().Informer(), storage.Capacities) },
		func() error { return replace(of.VolumeAttachments().Informer(), storage.Attachments) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func replace[T any](informer cache.SharedIndexInformer, objects []T) error {
	known := make([]any, 0, len(objects))
	for _, object := range objects {
		known = append(known, object)
	}
	return informer.GetIndexer().Replace(known, "")
}
